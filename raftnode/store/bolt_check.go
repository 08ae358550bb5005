package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The layout of a bbolt file (bbolt internal/common: page.go, meta.go, bucket.go).
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader   = 16 // id u64, flags u16, count u16, overflow u32
	metaSize     = 64
	metaChecked  = 56 // the checksum is FNV-1a of what is before it
	branchElem   = 16 // pos u32, ksize u32, pgid u64
	leafElem     = 16 // flags u32, pos u32, ksize u32, vsize u32
	bucketHeader = 16 // root pgid u64, sequence u64

	branchPage = 0x01
	leafPage   = 0x02
	freePage   = 0x10
	noFreelist = ^uint64(0)
	bucketFlag = 0x01

	maxBoltDepth = 64
)

// boltBuckets are the buckets of raft-boltdb. If one had another name, raft-boltdb would create it
// again, empty.
var boltBuckets = []string{"conf", "logs"}

// boltFile walks the pages of a bbolt file without trusting any of them.
type boltFile struct {
	r        io.ReaderAt
	pageSize int64
	pages    uint64 // number of pages
	visited  map[uint64]bool
}

// checkBolt fails unless the tree of a bbolt file consists of well-formed pages with ascending
// keys. The values are checked where they are read.
func checkBolt(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	meta, err := newestMeta(f, st.Size())
	if err != nil {
		return err
	}
	b := &boltFile{r: f, pageSize: meta.pageSize, pages: meta.pages, visited: map[uint64]bool{}}
	if int64(b.pages)*b.pageSize > st.Size() || b.pages > uint64(st.Size()) {
		return fmt.Errorf("it is truncated: %d bytes, %d pages of %d bytes are in use", st.Size(), b.pages, b.pageSize)
	}
	if err := b.checkRoot(meta.root); err != nil {
		return err
	}
	return b.checkFree(meta.freelist)
}

// checkFree fails when a page in use is on the list of free pages, if the file has such a list.
// This program writes none (S144), but tools for bbolt files do.
func (b *boltFile) checkFree(id uint64) error {
	if id == noFreelist {
		return nil
	}
	page, err := b.page(id, 0, freePage)
	if err != nil {
		return err
	}
	ids := page[pageHeader:]
	count := uint64(pageCount(page))
	if count == 0xFFFF { // bbolt then keeps the count in the first element
		count, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return fmt.Errorf("its list of free pages is damaged")
	}
	for i := range count {
		if free := binary.NativeEndian.Uint64(ids[i*8:]); free < 2 || free >= b.pages || b.visited[free] {
			return fmt.Errorf("page %d cannot be free", free)
		}
	}
	return nil
}

type boltMeta struct {
	pageSize              int64
	root, freelist, pages uint64
	txid                  uint64
}

// newestMeta returns the meta page that bbolt will choose.
func newestMeta(f io.ReaderAt, size int64) (boltMeta, error) {
	var newest boltMeta
	first, err := readMeta(f, 0)
	if err == nil {
		newest = first
	}
	// The first meta page may be the damaged one; the second one's offset depends on the page
	// size.
	for pageSize := int64(1024); pageSize <= 64<<10 && pageSize < size; pageSize *= 2 {
		m, err := readMeta(f, pageSize)
		if err == nil && m.pageSize == pageSize && (newest.pageSize == 0 || m.txid > newest.txid) {
			newest = m
		}
	}
	if newest.pageSize == 0 {
		return newest, fmt.Errorf("both of its meta pages are damaged")
	}
	return newest, nil
}

func readMeta(f io.ReaderAt, at int64) (boltMeta, error) {
	var buf [pageHeader + metaSize]byte
	if _, err := f.ReadAt(buf[:], at); err != nil {
		return boltMeta{}, err
	}
	b := buf[pageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaChecked])
	ne := binary.NativeEndian
	if ne.Uint32(b) != boltMagic || ne.Uint32(b[4:]) != boltVersion || ne.Uint64(b[metaChecked:]) != sum.Sum64() {
		return boltMeta{}, fmt.Errorf("damaged meta page")
	}
	m := boltMeta{pageSize: int64(ne.Uint32(b[8:])), root: ne.Uint64(b[16:]), freelist: ne.Uint64(b[32:]), pages: ne.Uint64(b[40:]), txid: ne.Uint64(b[48:])}
	if m.pageSize < 512 || m.pageSize > 64<<10 {
		return m, fmt.Errorf("page size %d", m.pageSize)
	}
	return m, nil
}

// checkRoot walks the root bucket, which contains the other buckets.
func (b *boltFile) checkRoot(root uint64) error {
	var names []string
	err := b.walk(root, 0, nil, func(key, value []byte, flags uint32) error {
		names = append(names, string(key))
		if flags != bucketFlag {
			return fmt.Errorf("%q is no bucket", key)
		}
		return b.checkBucket(value)
	})
	if err == nil && fmt.Sprint(names) != fmt.Sprint(boltBuckets) {
		err = fmt.Errorf("its buckets are %q, not %q", names, boltBuckets)
	}
	return err
}

// checkBucket walks one bucket; a small one is stored inline in its parent.
func (b *boltFile) checkBucket(value []byte) error {
	if len(value) < bucketHeader {
		return fmt.Errorf("a bucket of %d bytes", len(value))
	}
	checkKey := func(key, _ []byte, flags uint32) error {
		if flags != 0 {
			return fmt.Errorf("key %x has flags %x", key, flags)
		}
		return nil
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return b.walk(root, 0, nil, checkKey)
	}
	page := value[bucketHeader:]
	if len(page) < pageHeader || pageFlags(page) != leafPage {
		return fmt.Errorf("an inline bucket without its page")
	}
	_, err := leafElements(page, nil, checkKey)
	return err
}

// walk visits the leaves below a page in order. minKey is the lowest key allowed.
func (b *boltFile) walk(id uint64, depth int, minKey []byte, leaf func(key, value []byte, flags uint32) error) error {
	page, err := b.page(id, depth, branchPage|leafPage)
	if err != nil {
		return err
	}
	if pageFlags(page) == leafPage {
		_, err = leafElements(page, minKey, leaf)
	} else {
		err = branchElements(page, minKey, func(key []byte, child uint64) error {
			return b.walk(child, depth+1, key, leaf)
		})
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// page reads one page of one of the given kinds, with its overflow pages. A page that was read
// before is an error.
func (b *boltFile) page(id uint64, depth int, kinds uint16) ([]byte, error) {
	if id < 2 || id >= b.pages || b.visited[id] || depth > maxBoltDepth {
		return nil, fmt.Errorf("page %d is out of place", id)
	}
	b.visited[id] = true
	var head [pageHeader]byte
	if _, err := b.r.ReadAt(head[:], int64(id)*b.pageSize); err != nil {
		return nil, err
	}
	flags, overflow := pageFlags(head[:]), uint64(binary.NativeEndian.Uint32(head[12:]))
	if got := binary.NativeEndian.Uint64(head[:]); got != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, got)
	}
	if flags&kinds == 0 || flags&(flags-1) != 0 || id+overflow >= b.pages {
		return nil, fmt.Errorf("page %d has flags %x and overflow %d", id, flags, overflow)
	}
	page := make([]byte, (int64(overflow)+1)*b.pageSize)
	_, err := b.r.ReadAt(page, int64(id)*b.pageSize)
	return page, err
}

func pageFlags(page []byte) uint16 { return binary.NativeEndian.Uint16(page[8:]) }
func pageCount(page []byte) int    { return int(binary.NativeEndian.Uint16(page[10:])) }

// leafElements visits the keys of a leaf and returns the last.
func leafElements(page, minKey []byte, visit func(key, value []byte, flags uint32) error) ([]byte, error) {
	var last []byte
	for i := range pageCount(page) {
		at := pageHeader + i*leafElem
		if at+leafElem > len(page) {
			return nil, fmt.Errorf("more keys than fit")
		}
		ne, e := binary.NativeEndian, page[at:]
		pos, ksize, vsize := uint64(ne.Uint32(e[4:])), uint64(ne.Uint32(e[8:])), uint64(ne.Uint32(e[12:]))
		if uint64(at)+pos+ksize+vsize > uint64(len(page)) {
			return nil, fmt.Errorf("key %d reaches beyond its page", i)
		}
		key, value := e[pos:pos+ksize], e[pos+ksize:pos+ksize+vsize]
		if bytes.Compare(key, minKey) < 0 || (last != nil && bytes.Compare(key, last) <= 0) {
			return nil, fmt.Errorf("key %d is out of order", i)
		}
		if err := visit(key, value, ne.Uint32(e)); err != nil {
			return nil, err
		}
		last = key
	}
	return last, nil
}

// branchElements visits the children of a branch.
func branchElements(page, minKey []byte, visit func(key []byte, child uint64) error) error {
	var last []byte
	for i := range pageCount(page) {
		at := pageHeader + i*branchElem
		if at+branchElem > len(page) {
			return fmt.Errorf("more children than fit")
		}
		ne, e := binary.NativeEndian, page[at:]
		pos, ksize := uint64(ne.Uint32(e)), uint64(ne.Uint32(e[4:]))
		if uint64(at)+pos+ksize > uint64(len(page)) {
			return fmt.Errorf("child %d reaches beyond its page", i)
		}
		key := e[pos : pos+ksize]
		if bytes.Compare(key, minKey) < 0 || (last != nil && bytes.Compare(key, last) <= 0) {
			return fmt.Errorf("child %d is out of order", i)
		}
		if err := visit(key, ne.Uint64(e[8:])); err != nil {
			return err
		}
		last = key
	}
	return nil
}
