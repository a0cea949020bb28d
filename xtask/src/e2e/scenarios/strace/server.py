"""A server with a database, a log and files that it replaces. Ends when it is told to."""
import ctypes,os,socket
# Others than its parent may attach to it.
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
db=os.open("db",os.O_RDWR); log=open("server.log","a",buffering=1); conf=open("conf")
s=socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen(5); open("ready","w").write(str(os.getpid()))
while True:
    c,_=s.accept(); cmd=c.recv(100)
    if cmd==b"quit": break
    i=int(cmd); os.pwrite(db,b"d"*4096,i*4096); os.fsync(db); os.pread(db,4096,i*2048); log.write("did %d\n"%i); conf.read(10)
    with open("out%d"%i,"w") as o: o.write("o"*500)
    os.rename("out%d"%i,"kept%d"%i)
    if i%2: os.unlink("kept%d"%i)
    c.send(b"ok"); c.close()
