import os, socket
os.makedirs('deep/er/empty'); os.makedirs('closed')
open('file', 'w').write('content'); os.link('file', 'deep/same')
os.symlink('/etc/passwd', 'absolute'); os.symlink('nowhere', 'dangling')
open(b'name\nwith\xff bytes', 'w').write('x'); open('n' * 255, 'w').write('long')
with open('sparse', 'wb') as f: f.truncate(10 << 30); f.seek(5 << 30); f.write(b'middle')
os.mkfifo('fifo', 0o640); socket.socket(socket.AF_UNIX).bind('socket')
open('secret', 'w').write('s'); os.chmod('secret', 0); os.chmod('closed', 0o555)
open('run', 'w').write('#!/bin/sh\n'); os.chmod('run', 0o755)
try: os.setxattr('file', 'user.note', b'value')
except OSError: pass
for at, name in enumerate(sorted(os.listdir(b'.'))):
    os.utime(name, ns=(1, 1_000_000_000 + at), follow_symlinks=False)
open('/tmp/elsewhere', 'w').write('in /tmp'); open('/dev/shm/memory', 'w').write('shared')
