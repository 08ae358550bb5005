package faultfs

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// openFile is an open file. What is not listed here passes through.
type openFile struct {
	*fs.LoopbackFile
	file *os.File // the same as LoopbackFile's
	node *node
}

func (n *node) open(file *os.File) *openFile {
	o := &openFile{LoopbackFile: fs.NewLoopbackFileFromOS(file), file: file, node: n}
	n.fs.handles.add(o, func() { _ = file.Close() }) // what was written is with the file below
	return o
}

// reopen opens a file once more, to read and to write whatever it was opened for.
func reopen(file *os.File) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), os.O_RDWR, 0)
}

// PassthroughFd has the kernel ask for each operation.
func (o *openFile) PassthroughFd() (int, bool) { return 0, false }

// Read fails as the rules say.
func (o *openFile) Read(ctx context.Context, buf []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	if o.node.check(opRead) != 0 {
		return nil, syscall.EIO
	}
	return o.LoopbackFile.Read(ctx, buf, offset)
}

// Write fails as the rules say, or remembers what it changes.
func (o *openFile) Write(ctx context.Context, data []byte, offset int64) (uint32, syscall.Errno) {
	switch o.node.check(opWrite) {
	case FailWrite:
		return 0, syscall.EIO
	case NoSpace:
		return 0, syscall.ENOSPC
	case TornWrite:
		if _, errno := o.write(data[:len(data)/2], offset); errno != 0 {
			return 0, errno
		}
		return 0, syscall.EIO
	}
	return o.write(data, offset)
}

func (o *openFile) write(data []byte, offset int64) (written uint32, errno syscall.Errno) {
	err := o.node.fs.change(o.file, func(i *inode) error {
		if err := i.save(offset, int64(len(data))); err != nil {
			return err
		}
		n, err := i.file.WriteAt(data, offset)
		written = uint32(n)
		return err
	})
	return written, fs.ToErrno(err)
}

// Allocate changes the size, unless the mode keeps it, and no content.
func (o *openFile) Allocate(_ context.Context, offset, size uint64, mode uint32) syscall.Errno {
	if o.node.check(opAllocate) == NoSpace {
		return syscall.ENOSPC
	}
	if mode&^unix.FALLOC_FL_KEEP_SIZE != 0 {
		return syscall.EOPNOTSUPP // it would change content
	}
	return fs.ToErrno(o.node.fs.change(o.file, func(i *inode) error {
		return unix.Fallocate(int(i.file.Fd()), mode, int64(offset), int64(size))
	}))
}

// Setattr is the node's; the library asks the file first.
func (o *openFile) Setattr(ctx context.Context, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if errno := o.node.truncate(o.file, int64(size)); errno != 0 {
			return errno
		}
		in.Valid &^= fuse.FATTR_SIZE
	}
	return o.LoopbackFile.Setattr(ctx, in, out)
}

// Fsync makes the file durable, and its name, or fails as the rules say.
func (o *openFile) Fsync(context.Context, uint32) syscall.Errno {
	switch o.node.check(opSync) {
	case FailSync:
		return syscall.EIO
	case FailSyncForget:
		_ = o.node.fs.change(o.file, func(i *inode) error { i.forget(); return nil })
		return syscall.EIO
	}
	return fs.ToErrno(o.node.fs.syncFile(o.file))
}

// Release closes it.
func (o *openFile) Release(ctx context.Context) syscall.Errno {
	defer o.node.fs.handles.remove(o)
	return o.LoopbackFile.Release(ctx)
}

func (f *FS) syncFile(file *os.File) error {
	st, err := stat(file)
	if err != nil {
		return err
	}
	f.settleWhere(func(c nameChange) bool { return c.made != "" && c.inode == st.Ino })
	return f.change(file, (*inode).sync)
}
