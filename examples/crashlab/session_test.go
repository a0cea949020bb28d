// The crash lab in a test of Go: a file is replaced with its syncs, and every state after a power failure has the
// old content or the new one. Run it with `go test session_test.go`; it needs twinfs in PATH and /dev/fuse.
package crashlab

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Lab is a session of `twinfs crashlab --session`.
type Lab struct {
	Volume string
	conn   net.Conn
	lines  *bufio.Reader
}

// Begin mounts a volume; the session ends with the test.
func Begin(t *testing.T, options ...string) *Lab {
	command := exec.Command("twinfs", append([]string{"crashlab", "--session", "--size", "64M"}, options...)...)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Skip(err)
	}
	said := bufio.NewReader(stdout)
	told := map[string]string{}
	for range 4 {
		line, _ := said.ReadString('\n')
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		told[name] = value
	}
	conn, err := net.Dial("unix", told["socket"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); stdin.Close(); command.Wait() })
	return &Lab{told["volume"], conn, bufio.NewReader(conn)}
}

// Ask sends a line and returns the words of the answer.
func (lab *Lab) Ask(t *testing.T, line string) []string {
	fmt.Fprintln(lab.conn, line)
	answer, err := lab.lines.ReadString('\n')
	if err != nil || strings.HasPrefix(answer, "error") {
		t.Fatalf("%s: %s %v", line, answer, err)
	}
	return strings.Fields(answer)
}

func replace(path, content string) error {
	next := path + ".new"
	file, err := os.Create(next)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteString(content); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func TestReplaceSurvives(t *testing.T) {
	lab := Begin(t)
	path := filepath.Join(lab.Volume, "f")
	for _, content := range []string{"old", "new"} {
		if err := replace(path, content); err != nil {
			t.Fatal(err)
		}
		lab.Ask(t, "ack "+content)
	}
	lab.Ask(t, "end")
	for {
		answer := lab.Ask(t, "next")
		if answer[0] == "none" {
			break
		}
		acked, _ := os.ReadFile(answer[2])
		found, _ := os.ReadFile(path)
		promised := strings.Fields(string(acked))
		if len(promised) > 0 && string(found) != promised[len(promised)-1] && string(found) != "new" {
			t.Errorf("state %s: %q, promised %v", answer[1], found, promised)
			lab.Ask(t, "failed")
			continue
		}
		lab.Ask(t, "passed")
	}
}
