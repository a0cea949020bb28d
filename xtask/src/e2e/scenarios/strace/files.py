"""What programs in Python do with files: temporary ones, without names, in processes and threads."""
import fcntl, json, os, shutil, sqlite3, subprocess, tempfile, threading
os.makedirs("q/w"); open("q/w/f","w").write("x"*10000)
t=tempfile.TemporaryFile(dir="."); t.write(b"z"*3000); t.flush(); t.seek(0); t.read(); t.close()
n=tempfile.NamedTemporaryFile(dir="q"); n.write(b"k"*100); n.flush(); os.fsync(n.fileno()); n.close()
with tempfile.TemporaryDir(dir=".") if False else tempfile.TemporaryDirectory(dir=".") as d:
    open(os.path.join(d,"y"),"w").write("yy")
s=tempfile.SpooledTemporaryFile(max_size=10,dir="q"); s.write(b"1"*50); s.close()
fd=os.open("q",os.O_TMPFILE|os.O_RDWR,0o600); os.write(fd,b"linked"*100); os.link("/proc/self/fd/%d"%fd,"q/named",src_dir_fd=os.open("/", 0), follow_symlinks=True); os.close(fd)
fd=os.open("f",os.O_RDWR|os.O_CREAT,0o644); os.write(fd,b"x"*5000); os.fsync(fd); os.pwritev(fd,[b"a",b"bb"],10); os.preadv(fd,[bytearray(5),bytearray(7)],0)
g=os.open("g",os.O_RDWR|os.O_CREAT,0o644); os.copy_file_range(fd,g,3000,0); os.sendfile(g,fd,0,100); os.lseek(fd,0,os.SEEK_END); os.ftruncate(g,50000); os.pread(g,100,49000)
os.mkdir("ü"); os.chdir("ü"); os.close(os.open("q",os.O_CREAT|os.O_WRONLY)); os.rename("q","r"); os.unlink("r"); os.chdir("..")
os.posix_fallocate(fd,0,10000); h=fcntl.fcntl(fd,fcntl.F_DUPFD_CLOEXEC,10); os.dup2(fd,20); os.write(20,b"dup")
r,w=os.pipe(); os.splice(fd,w,100,offset_src=0); os.splice(r,g,100,offset_dst=4096)
a=open("app","ab"); a.write(b"1"*10); a.flush(); a.write(b"2"*10); a.close()
pid=os.fork()
if pid==0:
    os.write(fd,b"child"); os.execvp("cat",["cat","in.txt"])
os.waitpid(pid,0)
subprocess.run(["sh","-c","cat f > h; wc -c h > wc"]); subprocess.run(["sort","in.txt"],stdout=open("sorted","w"))
def work(i):
    with open("th%d"%i,"w") as o:
        for k in range(20): o.write("t"*100); o.flush()
ts=[threading.Thread(target=work,args=(i,)) for i in range(3)]; [x.start() for x in ts]; [x.join() for x in ts]
c=sqlite3.connect("p.db"); c.execute("create table a(b)"); c.executemany("insert into a values(?)",[(i,) for i in range(100)]); c.commit(); c.close()
shutil.copytree("tree","tc"); shutil.copy("in.txt","ic"); shutil.rmtree("tc"); os.replace("ic","in2"); os.symlink("in2","sl"); open("sl").read()
json.dump({"a":1},open("j.tmp","w")); os.replace("j.tmp","j"); open("j").read(); dfd=os.open("q",os.O_RDONLY|os.O_DIRECTORY); os.fsync(dfd); open("rel",'w',opener=lambda p,f: os.open(p,f,dir_fd=dfd)).write("r")
os.truncate("f",100); os.statvfs("."); os.listdir("."); os.stat("f"); os.access("nope",4); os.chmod("f",0o600); os.utime("f")
