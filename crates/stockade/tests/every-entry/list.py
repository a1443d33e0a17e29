import hashlib, os, stat
def look(path):
    found = os.lstat(path); kind = stat.S_IFMT(found.st_mode); extra = ''
    if kind == stat.S_IFLNK: extra = os.readlink(path)
    if kind == stat.S_IFREG:
        mode = stat.S_IMODE(found.st_mode)
        if not mode & 0o400: os.chmod(path, 0o400)
        with open(path, 'rb') as f:
            if found.st_size < 1 << 20: extra = hashlib.sha256(f.read()).hexdigest()
            else:
                f.seek(5 << 30); extra = (f.read(6), found.st_blocks < 1000)
        if not mode & 0o400: os.chmod(path, mode)
        try: extra = (extra, [(n, os.getxattr(path, n)) for n in os.listxattr(path)])
        except OSError: pass
    inode = found.st_nlink if kind != stat.S_IFDIR else 0
    print(path, oct(found.st_mode), found.st_mtime_ns, found.st_size if kind == stat.S_IFREG else 0, inode, extra)
def walk(path):
    look(path)
    if os.path.isdir(path) and not os.path.islink(path):
        for name in sorted(os.listdir(path)): walk(os.path.join(path, name))
for name in sorted(os.listdir(b'.')): walk(name)
for name in (b'/tmp/elsewhere', b'/dev/shm/memory'): look(name)
