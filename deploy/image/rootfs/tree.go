package rootfs

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Tree is the content of a layer, by path without a leading slash.
type Tree struct{ entries map[string]entry }

type entry struct {
	header tar.Header // its name, times and names of users are set when it is written
	data   []byte
}

// NewTree is an empty tree.
func NewTree() *Tree { return &Tree{entries: map[string]entry{}} }

func readTree(r io.Reader) (*Tree, error) {
	t := NewTree()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the unpacked packages: %w", err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return nil, fmt.Errorf("read %s of the unpacked packages: %w", h.Name, err)
		}
		if name := clean(h.Name); name != "." {
			t.entries[name] = entry{header: *h, data: data}
		}
	}
}

// clean is a path of an archive, or of a link from the root, as the tree has it.
func clean(name string) string { return path.Clean(strings.TrimPrefix(path.Clean("/"+name), "/")) }

// Put adds a file of root's, with the folders above it.
func (t *Tree) Put(name string, mode int64, data []byte) {
	t.add(name, tar.Header{Typeflag: tar.TypeReg, Mode: mode}, data)
}

// Link adds a symbolic link.
func (t *Tree) Link(name, target string) {
	t.add(name, tar.Header{Typeflag: tar.TypeSymlink, Mode: 0o777, Linkname: target}, nil)
}

// Folder adds an empty folder of a user and a group.
func (t *Tree) Folder(name string, mode int64, uid, gid int) {
	t.add(name, tar.Header{Typeflag: tar.TypeDir, Mode: mode, Uid: uid, Gid: gid}, nil)
}

func (t *Tree) add(name string, h tar.Header, data []byte) {
	if dir := path.Dir(name); dir != "." {
		if _, there := t.entries[dir]; !there {
			t.Folder(dir, 0o755, 0, 0)
		}
	}
	t.entries[name] = entry{header: h, data: data}
}

// Remove takes a path away, with all below it.
func (t *Tree) Remove(name string) {
	maps.DeleteFunc(t.entries, func(other string, _ entry) bool {
		return other == name || strings.HasPrefix(other, name+"/")
	})
}

// Has tells whether a path is there, through links of folders and files.
func (t *Tree) Has(name string) bool {
	_, _, err := t.resolve(name)
	return err == nil
}

// Names are the paths of all entries, sorted.
func (t *Tree) Names() []string { return slices.Sorted(maps.Keys(t.entries)) }

// Content is what a file has; nil where there is none.
func (t *Tree) Content(name string) []byte {
	_, e, _ := t.resolve(name)
	return e.data
}

// resolve follows links, of the path itself and of the folders above it.
func (t *Tree) resolve(name string) (string, entry, error) {
	for range 20 {
		e, there := t.entries[name]
		switch {
		case there && e.header.Typeflag == tar.TypeLink:
			name = clean(e.header.Linkname)
		case there && e.header.Typeflag == tar.TypeSymlink:
			name = linkTarget(name, e.header.Linkname)
		case there:
			return name, e, nil
		default:
			dir, _, err := t.resolveDir(path.Dir(name))
			if err != nil || dir == path.Dir(name) {
				return "", entry{}, fmt.Errorf("the image has no %s", name)
			}
			name = path.Join(dir, path.Base(name))
		}
	}
	return "", entry{}, fmt.Errorf("the links at %s have no end", name)
}

func (t *Tree) resolveDir(name string) (string, entry, error) {
	if name == "." {
		return name, entry{}, nil
	}
	return t.resolve(name)
}

func linkTarget(name, target string) string {
	if path.IsAbs(target) {
		return clean(target)
	}
	return clean(path.Join(path.Dir(name), target))
}

// Write writes the tree as an archive that is the same for the same tree. Hard links come after all that they may name.
func (t *Tree) Write(w io.Writer, epoch time.Time) error {
	archive := tar.NewWriter(w)
	for _, links := range []bool{false, true} {
		for _, name := range t.Names() {
			e := t.entries[name]
			if (e.header.Typeflag == tar.TypeLink) != links {
				continue
			}
			if err := archive.WriteHeader(e.written(name, epoch)); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
			if _, err := io.Copy(archive, bytes.NewReader(e.data)); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
		}
	}
	return archive.Close()
}

// written has no times but the one, no names of users, and nothing that runs with other rights than its caller's.
func (e entry) written(name string, epoch time.Time) *tar.Header {
	h := tar.Header{
		Typeflag: e.header.Typeflag, Name: name, Linkname: e.header.Linkname, Size: int64(len(e.data)),
		Mode: e.header.Mode &^ 0o6000, Uid: e.header.Uid, Gid: e.header.Gid, ModTime: epoch, Format: tar.FormatPAX,
	}
	switch h.Typeflag {
	case tar.TypeDir:
		h.Name += "/"
	case tar.TypeLink:
		h.Linkname = clean(h.Linkname)
	}
	return &h
}
