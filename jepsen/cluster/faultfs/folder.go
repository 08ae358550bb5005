package faultfs

import (
	"context"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
)

// folderStream is what the library reads an open directory by.
type folderStream interface {
	fs.FileReaddirenter
	fs.FileSeekdirer
	fs.FileReleasedirer
}

// openFolder is an open directory.
type openFolder struct {
	folderStream
	node *node
}

// OpendirHandle opens a directory.
func (n *node) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	handle, fuseFlags, errno := n.LoopbackNode.OpendirHandle(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	stream, ok := handle.(folderStream)
	if !ok {
		return nil, 0, syscall.EIO
	}
	o := &openFolder{folderStream: stream, node: n}
	n.fs.handles.add(o, func() { stream.Releasedir(context.Background(), 0) })
	return o, fuseFlags, 0
}

// Releasedir closes it.
func (o *openFolder) Releasedir(ctx context.Context, flags uint32) {
	defer o.node.fs.handles.remove(o)
	o.folderStream.Releasedir(ctx, flags)
}

// Fsyncdir makes the names in the directory durable, or fails as the rules say.
func (o *openFolder) Fsyncdir(context.Context, uint32) syscall.Errno {
	if o.node.check(opSync) != 0 {
		return syscall.EIO
	}
	folder := inodeNumber(o.node.below(""))
	o.node.fs.settleWhere(func(c nameChange) bool { return slices.Contains(c.folders, folder) })
	return 0
}
