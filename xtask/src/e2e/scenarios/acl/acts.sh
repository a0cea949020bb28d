# What users may do by ACLs, as a list of outcomes: run in an empty directory as root, on any file
# system. Users 1001 to 1004 have a group of their own number; 3001 is a group that only some calls have.

umask 022

# as USER GROUPS LINE: the line as this user, with these groups beside its own.
as() {
    user=$1 groups=$2
    shift 2
    setpriv --reuid="$user" --regid="$user" --groups="$user$groups" sh -c "$*" 2>/dev/null
}

# try USER GROUPS LINE: says whether the line succeeded.
try() {
    if as "$@" >/dev/null; then echo "  $1$2 may: $3"; else echo "  $1$2 may not: $3"; fi
}

# everybody FILE: who may read, write and execute it.
everybody() {
    for who in "1001" "1002" "1003" "1003 ,3001" "1004"; do
        set -- "$1" ${who}
        try "$2" "${3:-}" "cat $1"
        try "$2" "${3:-}" "echo more >> $1"
        try "$2" "${3:-}" "test -x $1 -a ! -d $1"
    done
}

# show PATH...: modes and ACLs.
show() {
    for path in "$@"; do
        stat -c '%A %a %u %g' "$path"
        getfacl -cnpE "$path"
    done
}

part() { echo "== $*"; }

part named users and groups
echo text > file
chown 1001:1001 file
chmod 640 file
setfacl -m u:1002:rw,g:3001:r file
show file
everybody file

part the mask
setfacl -m m::r file
show file
everybody file
chmod 600 file
show file
everybody file
chmod 604 file
everybody file
chmod 767 file
show file
everybody file

part several groups
setfacl -b file
setfacl -m g:3001:w,g:3002:r,g::0,o::rw file
try 1003 ,3001 'cat file'
try 1003 ,3001 'echo more >> file'
try 1003 ,3001,3002 'cat file'
try 1003 ,3001,3002 'echo more <> file'
try 1003 ,3001,3002 'exec 3<> file'
try 1003 '' 'exec 3<> file'

part who may set an ACL
try 1002 '' 'setfacl -m u:1004:rwx file'
try 1001 '' 'setfacl -m u:1004:rwx file'
try 1004 '' 'setfacl -b file'
try 1004 '' 'getfacl file'
show file

part a directory
mkdir dir
chown 1001:1001 dir
chmod 700 dir
setfacl -m u:1002:x,u:1003:rx,g:3001:rwx dir
echo text > dir/known
chmod 644 dir/known
show dir
for who in 1002 1003 1004 '1004 ,3001'; do
    set -- $who
    try "$1" "${2:-}" 'ls dir'
    try "$1" "${2:-}" 'cat dir/known'
    try "$1" "${2:-}" 'touch dir/new'
    try "$1" "${2:-}" 'ln dir/known dir/link'
    try "$1" "${2:-}" 'mv dir/known dir/other'
    try "$1" "${2:-}" 'mv dir/other dir/known'
    try "$1" "${2:-}" 'rm -f dir/new dir/link'
done

part inheritance and the umask
mkdir plain given
umask 077
touch plain/file; mkdir plain/dir
umask 022
setfacl -d -m u:1002:rwx,g:3001:rx,o::- given
show given
umask 077
touch given/file; mkdir given/dir; mkfifo given/fifo; mknod given/device c 1 3; ln -s file given/link
mkdir -m 700 given/closed; mkdir -m 1777 given/open; mkdir -p given/dir/deep/deeper
touch given/dir/deep/deeper/file
sh -c 'cat /dev/null > given/made; chmod 755 given/made'
umask 022
show plain plain/* given/* given/dir/deep given/dir/deep/deeper given/dir/deep/deeper/file
everybody given/file
ln given/file plain/linked; mv given/made plain/moved
show plain/linked plain/moved
chown 1001 given
as 1001 '' 'cd given && umask 0 && touch mine && mkdir mine.d && chmod 2770 mine.d'
show given/mine given/mine.d
setfacl -k given
touch given/after
show given given/after
mkdir base
setfacl -d -m u::rwx,g::r-x,o::- base
(umask 0; touch base/file; mkdir base/dir)
show base base/file base/dir

part set-gid
echo text > program
chown 1001:3001 program
for who in 1001 '1001 ,3001'; do
    set -- $who
    chmod 6755 program
    try "$1" "${2:-}" 'setfacl -m u:1002:rwx program'
    show program
done
mkdir -m 2775 group
chgrp 3001 group
setfacl -d -m u:1002:rx group
mkdir group/dir; touch group/file
show group group/dir group/file

part many entries
touch many
mkdir many.d
list=
for id in $(seq 5001 5060); do list="$list,u:$id:r-x,g:$id:-wx"; done
setfacl -m "u:1002:rw$list" many
setfacl -m "u:1002:rwx$list" many.d
setfacl -d -m "u:1002:rwx$list" many.d
mkdir many.d/dir; touch many.d/file many.d/dir/file
getfacl -cnpE many many.d many.d/dir many.d/dir/file | sum
everybody many
chmod 700 many many.d/file
everybody many.d/file
chmod 760 many
everybody many
getfacl -cnpE many | tail -4
try 5050 '' 'cat many'

part removal
setfacl -b file
show file
setfacl -x u:1002 many.d; setfacl -b -k many.d
show many.d
touch many.d/after; show many.d/after
setfacl -d -m u:1002:r many.d 2>&1; setfacl -d -m u:1002:r file 2>&1
touch bare; chmod 640 bare
setfacl -m u::rwx,g::rx,o::x bare
show bare
setfacl -m m::rx bare
show bare
setfacl -x m bare
show bare

part copies
mkdir from
setfacl -d -m u:1002:rw,g:3001:r from
setfacl -m u:1003:rwx,m::rx from
mkdir from/dir; touch from/file from/dir/file
setfacl -m "u:1002:rw$list" from/dir/file
cp -a from copied
mkdir unpacked synced
tar --acls -cf from.tar from && tar --acls -xpf from.tar -C unpacked
rsync -aA from/ synced/
for copy in copied unpacked/from synced; do
    (cd from && find . | sort | xargs getfacl -n) > one
    (cd "$copy" && find . | sort | xargs getfacl -n) > two
    if cmp -s one two; then echo "  $copy: the same"; else echo "  $copy: differs"; diff one two; fi
done
rm one two from.tar
