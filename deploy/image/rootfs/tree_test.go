package rootfs

import (
	"archive/tar"
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func archive(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		require.NoError(t, w.WriteHeader(&h))
	}
	require.NoError(t, w.Close())
	return &out
}

func TestTreeIsWrittenTheSameWhateverItsOrderAndTimes(t *testing.T) {
	a := tar.Header{Name: "./a", Typeflag: tar.TypeReg, Mode: 0o4755, ModTime: time.Unix(5, 0), Uname: "root"}
	b := tar.Header{Name: "./b", Typeflag: tar.TypeReg, Mode: 0o644, ModTime: time.Unix(6, 0)}
	link := tar.Header{Name: "./0", Typeflag: tar.TypeLink, Linkname: "./b"}
	var written []string
	for _, order := range [][]tar.Header{{a, b, link}, {b, link, a}} {
		tree, err := readTree(archive(t, order...))
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, tree.Write(&out, time.Unix(1_000, 0)))
		written = append(written, out.String())
	}
	require.Equal(t, written[0], written[1])

	var names []string
	for r := tar.NewReader(bytes.NewReader([]byte(written[0]))); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		require.Equal(t, time.Unix(1_000, 0).UTC(), h.ModTime.UTC())
		require.Zero(t, h.Mode&0o6000, "nothing runs with other rights than its caller's")
		require.Empty(t, h.Uname)
		names = append(names, h.Name)
	}
	require.Equal(t, []string{"a", "b", "0"}, names, "a hard link comes after what it names")
}

func TestTreeFollowsLinks(t *testing.T) {
	tree := NewTree()
	tree.Link("bin", "usr/bin")
	tree.Put("usr/bin/busybox", 0o755, []byte("x"))
	tree.Link("usr/bin/sh", "/bin/busybox")
	tree.Link("usr/sbin/loop", "loop")
	for name, want := range map[string]bool{"bin/busybox": true, "bin/sh": true, "usr/bin/sh": true, "bin/bash": false, "bash": false, "usr/sbin/loop": false, "usr/sbin/loop/x": false} {
		require.Equal(t, want, tree.Has(name), name)
	}
	require.True(t, tree.Program("sh"))
	require.False(t, tree.Program("bash"))
	require.Equal(t, "x", string(tree.Content("bin/sh")))
	for range 2 {
		tree.Remove("usr/bin")
		require.False(t, tree.Has("bin/sh"))
	}
	require.True(t, tree.Has("usr"))
}

func TestMissingNamesWhatIsNotThere(t *testing.T) {
	tree := NewTree()
	tree.Put("usr/bin/a", 0o755, []byte("#! /bin/bash -e\n"))
	tree.Put("usr/bin/b", 0o755, []byte("#!/bin/sh"))
	tree.Put("usr/share/c", 0o644, []byte("#!/usr/bin/python3\n"))
	tree.Put("bin/sh", 0o755, nil)
	require.Equal(t, []string{"/usr/bin/a needs /bin/bash"}, tree.Missing())
}

func TestTrimAndFinish(t *testing.T) {
	tree := NewTree()
	for _, name := range []string{"usr/share/man/man1/x.1", "usr/share/doc/x/copyright", "usr/share/doc/x/README", "usr/share/doc/x/e/y", "etc/hostname", "usr/sbin/lvm", "var/log/apt/x"} {
		tree.Put(name, 0o644, nil)
	}
	require.Error(t, tree.Finish(), "an image without certificates is not made")
	tree.Put("usr/share/ca-certificates/mozilla/b.crt", 0o644, []byte("B\n"))
	tree.Put("usr/share/ca-certificates/mozilla/a.crt", 0o644, []byte("A\n"))
	require.NoError(t, tree.Trim(".."))
	require.NoError(t, tree.Finish())
	for name, want := range map[string]bool{
		"usr/share/man": false, "usr/share/doc/x/copyright": true, "usr/share/doc/x/README": false, "usr/share/doc/x/e": false,
		"etc/hostname": false, "usr/sbin/lvm": true, "var/log": false, "etc/machine-id": false, "usr/share/ca-certificates": false,
	} {
		require.Equal(t, want, tree.Has(name), name)
	}
	require.Equal(t, "A\nB\n", string(tree.Content("etc/ssl/certs/ca-certificates.crt")))
	require.Contains(t, string(tree.Content("etc/passwd")), "holdfast:x:9800:9800:")
}
