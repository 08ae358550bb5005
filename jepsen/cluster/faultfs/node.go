package faultfs

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// node is a file or a directory. What is not listed here passes through.
type node struct {
	*fs.LoopbackNode
	fs *FS
}

// WrapChild makes every node of the tree one of these.
func (n *node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	if loop, ok := child.(*fs.LoopbackNode); ok {
		return &node{LoopbackNode: loop, fs: n.fs}
	}
	return child
}

// relative is the path in the filesystem, empty for its root.
func (n *node) relative() string { return n.EmbeddedInode().Path(n.EmbeddedInode().Root()) }

// below is the path of one of its names.
func (n *node) below(name string) string { return filepath.Join(n.fs.live, n.relative(), name) }

func (n *node) check(op operation) Fault { return n.fs.rules.check(op, n.relative()) }

func (n *node) checkName(op operation, name string) syscall.Errno {
	if n.fs.rules.check(op, filepath.Join(n.relative(), name)) == NoSpace {
		return syscall.ENOSPC
	}
	return 0
}

// made remembers that a name was made.
func (n *node) made(name string) {
	path := n.below(name)
	n.fs.remember(nameChange{made: path, inode: inodeNumber(path)}, path)
}

// Open opens to read too what is opened to write: what a write changes is read first.
func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	mode := int(flags) & syscall.O_ACCMODE
	if mode == syscall.O_WRONLY {
		mode = syscall.O_RDWR
	}
	file, err := os.OpenFile(n.below(""), mode|int(flags)&syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, fs.ToErrno(err)
	}
	if flags&syscall.O_TRUNC != 0 {
		if errno := n.truncate(file, 0); errno != 0 {
			_ = file.Close()
			return nil, 0, errno
		}
	}
	return n.open(file), 0, 0
}

// Create makes a file and opens it.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.checkName(opName, name); errno != 0 {
		return nil, nil, 0, errno
	}
	child, handle, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags&^syscall.O_ACCMODE|syscall.O_RDWR, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	n.made(name)
	file, err := os.OpenFile(n.below(name), os.O_RDWR, 0)
	if releaser, ok := handle.(fs.FileReleaser); ok {
		_ = releaser.Release(ctx)
	}
	wrapped, ok := child.Operations().(*node)
	if err != nil || !ok {
		return nil, nil, 0, syscall.EIO
	}
	return child, wrapped.open(file), fuseFlags, 0
}

// Mkdir makes a directory.
func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.checkName(opName, name); errno != 0 {
		return nil, errno
	}
	child, errno := n.LoopbackNode.Mkdir(ctx, name, mode, out)
	if errno == 0 {
		n.made(name)
	}
	return child, errno
}

// Symlink makes a symbolic link.
func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.checkName(opName, name); errno != 0 {
		return nil, errno
	}
	child, errno := n.LoopbackNode.Symlink(ctx, target, name, out)
	if errno == 0 {
		n.made(name)
	}
	return child, errno
}

// Link makes another name of a file.
func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.checkName(opName, name); errno != 0 {
		return nil, errno
	}
	child, errno := n.LoopbackNode.Link(ctx, target, name, out)
	if errno == 0 {
		n.made(name)
	}
	return child, errno
}

// Unlink removes a file's name.
func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	_ = n.checkName(opUnname, name)
	path := n.below(name)
	kept := n.fs.keep(path)
	errno := n.LoopbackNode.Unlink(ctx, name)
	if errno != 0 {
		_ = os.Remove(kept)
		return errno
	}
	n.fs.remember(nameChange{gone: path, kept: kept}, path)
	return 0
}

// Rmdir removes an empty directory.
func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	_ = n.checkName(opUnname, name)
	path := n.below(name)
	info, err := os.Lstat(path)
	if err != nil {
		return fs.ToErrno(err)
	}
	if errno := n.LoopbackNode.Rmdir(ctx, name); errno != 0 {
		return errno
	}
	n.fs.remember(nameChange{gone: path, wasDir: true, modeGone: info.Mode().Perm()}, path)
	return 0
}

// Rename gives a file another name, or exchanges two; an exchange is durable at once, with all changes of names before it.
func (n *node) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to, ok := parent.(*node)
	if !ok || flags&^unix.RENAME_EXCHANGE != 0 {
		return syscall.EINVAL
	}
	_ = n.checkName(opUnname, name)
	if flags != 0 {
		errno := n.LoopbackNode.Rename(ctx, name, parent, newName, flags)
		n.fs.settleAll()
		return errno
	}
	from, path := n.below(name), to.below(newName)
	kept := n.fs.keep(path)
	if errno := n.LoopbackNode.Rename(ctx, name, parent, newName, flags); errno != 0 {
		_ = os.Remove(kept)
		return errno
	}
	n.fs.remember(nameChange{made: path, gone: from, kept: kept, inode: inodeNumber(path)}, from, path)
	return 0
}

// Setattr sets sizes by its own way.
func (n *node) Setattr(ctx context.Context, handle fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok && handle == nil {
		file, err := os.OpenFile(n.below(""), os.O_RDWR, 0)
		if err != nil {
			return fs.ToErrno(err)
		}
		defer file.Close()
		if errno := n.truncate(file, int64(size)); errno != 0 {
			return errno
		}
		in.Valid &^= fuse.FATTR_SIZE
	}
	return n.LoopbackNode.Setattr(ctx, handle, in, out)
}

func (n *node) truncate(file *os.File, size int64) syscall.Errno {
	if n.check(opAllocate) == NoSpace {
		return syscall.ENOSPC
	}
	return fs.ToErrno(n.fs.change(file, func(i *inode) error {
		if err := i.save(size, i.size-size); err != nil {
			return err
		}
		return i.file.Truncate(size)
	}))
}

// Fsync is a file's; a directory's is its openFolder's.
func (n *node) Fsync(ctx context.Context, handle fs.FileHandle, flags uint32) syscall.Errno {
	if open, ok := handle.(*openFile); ok {
		return open.Fsync(ctx, flags)
	}
	return syscall.EINVAL
}

// CopyFileRange is left to the kernel, which reads and writes.
func (n *node) CopyFileRange(context.Context, fs.FileHandle, uint64, *fs.Inode, fs.FileHandle, uint64, uint64, uint64) (uint32, syscall.Errno) {
	return 0, syscall.ENOSYS
}
