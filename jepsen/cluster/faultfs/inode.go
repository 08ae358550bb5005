package faultfs

import (
	"errors"
	"io"
	"maps"
	"os"
	"sync"
	"syscall"
)

// pageSize is the unit in which the kernel writes back, sectorSize that which a disk writes whole.
const (
	pageSize   = 4096
	sectorSize = 512
)

// inode is a file whose content is not durable.
type inode struct {
	mu    sync.Mutex
	file  *os.File // what is below; it keeps the inode number from being used again
	size  int64    // that is durable
	pages map[int64]*page
	ended bool // nothing of it is remembered here any more
}

// page is one that was written since it was durable.
type page struct {
	before []byte // what is durable; nil for zeros
	lost   bool   // a sync failed and it counts as clean: no later sync writes it
}

// change does something to the bookkeeping of an open file, under its lock.
func (f *FS) change(open *os.File, do func(*inode) error) error {
	for {
		i, err := f.inodeOf(open)
		if err != nil {
			return err
		}
		i.mu.Lock()
		if i.ended {
			i.mu.Unlock()
			continue // it is about to leave the map
		}
		err = do(i)
		i.mu.Unlock()
		return err
	}
}

func (f *FS) inodeOf(open *os.File) (*inode, error) {
	st, err := stat(open)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.inodes[st.Ino]; i != nil {
		return i, nil
	}
	own, err := reopen(open)
	if err != nil {
		return nil, err
	}
	i := &inode{file: own, size: st.Size, pages: map[int64]*page{}}
	f.inodes[st.Ino] = i
	return i, nil
}

// end ends the bookkeeping of files for which it is not needed any more.
func (f *FS) end(needless func(*inode) bool) {
	f.mu.Lock()
	all := maps.Clone(f.inodes)
	f.mu.Unlock()
	for number, i := range all {
		if i.endIf(needless) {
			f.mu.Lock()
			delete(f.inodes, number)
			f.mu.Unlock()
		}
	}
}

func (i *inode) endIf(needless func(*inode) bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended || !needless(i) {
		return false
	}
	i.ended = true
	_ = i.file.Close()
	return true
}

// isUnlinked reports whether a file has no name, here and among what is kept.
func (i *inode) isUnlinked() bool {
	st, err := stat(i.file)
	return err == nil && st.Nlink == 0
}

func stat(file *os.File) (syscall.Stat_t, error) {
	var st syscall.Stat_t
	info, err := file.Stat()
	if err != nil {
		return st, err
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		st = *sys
	}
	return st, nil
}

// save remembers what a write is about to change. The caller holds the lock.
func (i *inode) save(offset, length int64) error {
	if length <= 0 {
		return nil
	}
	for n := offset / pageSize; n <= (offset+length-1)/pageSize; n++ {
		if p := i.pages[n]; p != nil {
			p.lost = false
			continue
		}
		before, err := i.read(n)
		if err != nil {
			return err
		}
		i.pages[n] = &page{before: before}
	}
	return nil
}

// read is what is durable of a page that was not written since; shorter at the end, nil behind it.
func (i *inode) read(n int64) ([]byte, error) {
	length := min(pageSize, i.size-n*pageSize)
	if length <= 0 {
		return nil, nil
	}
	content := make([]byte, length)
	read, err := i.file.ReadAt(content, n*pageSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return content[:read], nil
}

// sync makes all durable but what earlier syncs lost. The caller holds the lock.
func (i *inode) sync() error {
	st, err := stat(i.file)
	if err != nil {
		return err
	}
	i.size = st.Size
	maps.DeleteFunc(i.pages, func(_ int64, p *page) bool { return !p.lost })
	return nil
}

// forget takes all that was written for clean. The caller holds the lock.
func (i *inode) forget() {
	for _, p := range i.pages {
		p.lost = true
	}
}

// coin decides what reached the disk by itself before the power was lost.
type coin func() bool

// losePower leaves what is durable, and of the rest what the coin says.
func (i *inode) losePower(reached coin) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	st, err := stat(i.file)
	if err != nil {
		return err
	}
	size := i.size
	if st.Size != size && reached() {
		size = st.Size
	}
	if err := i.file.Truncate(size); err != nil {
		return err
	}
	for _, n := range sortedKeys(i.pages) {
		if err := i.restore(n, size, reached); err != nil {
			return err
		}
	}
	return i.file.Close()
}

// restore writes a page's durable sectors; those of one that no sync lost may have reached the disk.
func (i *inode) restore(n, size int64, reached coin) error {
	p := i.pages[n]
	durable := make([]byte, pageSize)
	copy(durable, p.before)
	for at := int64(0); at < pageSize; at += sectorSize {
		offset := n*pageSize + at
		if offset >= size || !p.lost && reached() {
			continue
		}
		if _, err := i.file.WriteAt(durable[at:min(at+sectorSize, at+size-offset)], offset); err != nil {
			return err
		}
	}
	return nil
}
