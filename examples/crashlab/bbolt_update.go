// bbolt: a key whose transaction was committed is there, and the database opens and is sound.
//
//	go mod init bolt && go get go.etcd.io/bbolt@v1.3.7 && go build -o bolt bbolt_update.go
//	twinfs crashlab --check '/path/of/bolt check' -- /path/of/bolt run
package main

import (
	"fmt"
	"os"
	"strings"

	bolt "go.etcd.io/bbolt"
)

func main() {
	name := []byte("b")
	if os.Args[1] == "run" {
		db, err := bolt.Open("bolt.db", 0600, nil)
		must(err)
		for n := 0; n < 5; n++ {
			key := fmt.Sprintf("key%d", n)
			must(db.Update(func(tx *bolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists(name)
				must(err)
				return b.Put([]byte(key), []byte(strings.Repeat("v", 3000)))
			}))
			f, err := os.OpenFile(os.Getenv("CRASHLAB_ACK"), os.O_APPEND|os.O_WRONLY, 0)
			must(err)
			fmt.Fprintln(f, key)
			f.Close()
		}
		return
	}
	acked, _ := os.ReadFile(os.Getenv("CRASHLAB_ACKED"))
	keys := strings.Fields(string(acked))
	db, err := bolt.Open("bolt.db", 0600, nil)
	must(err)
	must(db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			must(err)
		}
		b := tx.Bucket(name)
		for _, key := range keys {
			if b == nil || len(b.Get([]byte(key))) != 3000 {
				return fmt.Errorf("%s is gone", key)
			}
		}
		return nil
	}))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
