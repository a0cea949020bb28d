# Makes the tree of the first snapshot in the present directory, and its changes: sh tree.sh 1, 2, 3.
set -eu
bytes() { head -c "$1" /dev/urandom; }
case "$1" in
1)
	mkdir -p d/sub/deep gone moved/below
	for n in $(seq 60); do bytes $((n * 997)) >"d/f$n"; done
	bytes 20000000 >big
	truncate -s 1G sparse
	echo end >>sparse
	bytes 300000 >d/mapped
	ln d/f1 d/sub/link
	ln d/f1 another
	ln d/f5 d/sub/five
	ln -s ../.. d/up
	ln -s nowhere "$(printf 'with\nnewline\377')"
	mknod null c 1 3
	mkfifo fifo
	echo gone >gone/file
	echo below >moved/below/file
	setfacl -m u:1002:rwx d/f2
	setfacl -d -m g:1003:rx d/sub
	python3 -c 'import os; os.setxattr("d", "user.a", b"1"); os.setxattr("d/f7", "user.long", b"x" * 2000)'
	chown 1001:1002 d/f3
	chown -h 1001:1002 d/up
	chmod 6755 d/f3
	touch -d "2001-02-03 04:05:06.789" d/sub d/f4
	;;
2)
	# In the middle of a large file, as a hole, as a shorter and as a longer file.
	printf zz | dd of=big bs=1 seek=5000000 conv=notrunc status=none
	fallocate -p -o 8M -l 1M big
	truncate -s 1000 d/f40
	bytes 5000 >>d/f41
	rm -r gone d/f10
	mv moved other
	mv d/f11 d/sub/f11
	# Names of one file come and go.
	ln d/f1 third
	rm another
	rm d/sub/five
	echo five >d/sub/five
	# Something else has a name.
	rm fifo null
	mkdir fifo
	ln -s fifo null
	setfacl -b d/f2
	python3 -c 'import os; os.removexattr("d", "user.a"); os.setxattr("d/f7", "user.long", b"y")'
	chmod 700 d/sub
	chown 0:0 d/f3
	;;
3)
	rm -r d/sub
	truncate -s 10000 big
	mv other moved
	ln d/f5 fifo/five
	cat d/f41 d/f42 >d/f43
	touch d/f44
	bytes 100 >d/sub
	;;
esac
