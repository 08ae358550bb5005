package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// secret is a folder at which a Secret is mounted, as kubelet makes it: a folder for each version, `..data` that leads to
// the one that is mounted, and a link into it for each file.
type secret struct {
	dir     string
	version int
}

func newSecret(t *testing.T) *secret {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	return &secret{dir: dir}
}

// publish replaces all files at once, and then removes the former version.
func (s *secret) publish(t *testing.T, mode os.FileMode, files map[string][]byte) {
	t.Helper()
	former, _ := os.Readlink(filepath.Join(s.dir, dataLink))
	s.version++
	version := fmt.Sprintf("..2026_11_27_10_00_00.%d", s.version)
	folder := filepath.Join(s.dir, version)
	require.NoError(t, os.Mkdir(folder, 0o755))
	for name, content := range files {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, content, 0o600))
		require.NoError(t, os.Chmod(path, mode))
	}
	temp := filepath.Join(s.dir, "..data_tmp")
	require.NoError(t, os.Symlink(version, temp))
	require.NoError(t, os.Rename(temp, filepath.Join(s.dir, dataLink)))
	for name := range files {
		link := filepath.Join(s.dir, name)
		if _, err := os.Lstat(link); os.IsNotExist(err) {
			require.NoError(t, os.Symlink(filepath.Join(dataLink, name), link))
		}
	}
	if former != "" {
		require.NoError(t, os.RemoveAll(filepath.Join(s.dir, former)))
	}
}

func (s *secret) files() Files {
	return Files{Cert: filepath.Join(s.dir, "tls.crt"), Key: filepath.Join(s.dir, "tls.key"), CA: filepath.Join(s.dir, "ca.crt")}
}

// contentOf is what a Secret has of a key pair.
func contentOf(t *testing.T, files Files) map[string][]byte {
	t.Helper()
	content := map[string][]byte{}
	for name, path := range map[string]string{"tls.crt": files.Cert, "tls.key": files.Key, "ca.crt": files.CA} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		content[name] = text
	}
	return content
}

func TestAMountedSecretIsUsedAndItsRenewalToo(t *testing.T) {
	ca := newCA(t, "prod.example")
	s := newSecret(t)
	s.publish(t, 0o440, contentOf(t, issue(t, ca, Controller, "c1")))
	creds, err := Load(s.files())
	require.NoError(t, err)
	for range 3 {
		former := creds.Certificate().Serial
		require.NoError(t, creds.Err())
		require.Equal(t, former, creds.Certificate().Serial, "it is the same as long as the mount is")
		s.publish(t, 0o400, contentOf(t, issue(t, ca, Controller, "c1")))
		require.NotEqual(t, former, creds.Certificate().Serial)
		require.NoError(t, creds.Err())
	}
	atServer, atClient := handshake(t, creds.Server(Controller), creds.Client(Controller))
	require.NoError(t, atServer)
	require.NoError(t, atClient)
}

// The other version is of another CA: no file of it goes with one of this.
func TestFilesOfAMountAreOfOneVersion(t *testing.T) {
	one, two := contentOf(t, issue(t, newCA(t, "prod.example"), Controller, "c1")), contentOf(t, issue(t, newCA(t, "prod.example"), Controller, "c1"))
	s := newSecret(t)
	s.publish(t, 0o400, one)
	at, err := locate(s.files().paths()...)
	require.NoError(t, err)
	folder := filepath.Dir(at[0].path)
	for i := range at {
		require.Equal(t, folder, filepath.Dir(at[i].path))
		require.True(t, at[i].mounted)
	}
	s.publish(t, 0o400, two)
	_, _, err = readAt(at)
	require.ErrorIs(t, err, fs.ErrNotExist, "what is left of a version is not completed from the next")
	for range 2 {
		content, err := readTogether(s.files().paths()...)
		require.NoError(t, err)
		require.Equal(t, [][]byte{two["tls.crt"], two["tls.key"], two["ca.crt"]}, content)
	}
}

// A process that reads while versions are replaced never meets files that do not belong together.
func TestAMountIsReadWhileItIsReplaced(t *testing.T) {
	s := newSecret(t)
	var versions []map[string][]byte
	for range 2 {
		versions = append(versions, contentOf(t, issue(t, newCA(t, "prod.example"), Controller, "c1")))
	}
	s.publish(t, 0o400, versions[0])
	creds, err := Load(s.files())
	require.NoError(t, err)
	read := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				read <- nil
				return
			default:
			}
			if err := creds.Err(); err != nil && !errors.Is(err, fs.ErrNotExist) { // each version was gone by the time: the last good files are in use
				read <- err
				return
			}
		}
	}()
	for i := range 60 {
		s.publish(t, 0o400, versions[i%2])
	}
	close(stop)
	require.NoError(t, <-read)
	require.NoError(t, creds.Err())
}

func TestAMountedCASigns(t *testing.T) {
	dir := newCA(t, "prod.example")
	s := newSecret(t)
	content := map[string][]byte{}
	for _, name := range []string{caCert, caKey} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		content[name] = text
	}
	s.publish(t, 0o440, content)
	for range 2 {
		files, err := Issue(s.dir, filepath.Join(t.TempDir(), "out"), Identity{Role: Node, Name: "n1"}, time.Hour)
		require.NoError(t, err)
		_, err = Load(files)
		require.NoError(t, err)
	}
}

func TestWhatOthersCanReadOfAMountIsRefused(t *testing.T) {
	content := contentOf(t, issue(t, newCA(t, "prod.example"), Node, "n1"))
	for mode, problem := range map[os.FileMode]string{
		0o644: "mount the Secret with defaultMode 0400", 0o404: "defaultMode 0400", 0o460: "defaultMode 0400", 0o402: "defaultMode 0400",
	} {
		s := newSecret(t)
		s.publish(t, mode, content)
		for range 2 {
			_, err := Load(s.files())
			require.ErrorContains(t, err, problem, mode)
			require.ErrorContains(t, err, s.dir+"/tls.crt", "it is named as it was given")
		}
	}
	s := newSecret(t)
	s.publish(t, 0o400, content)
	require.NoError(t, os.Remove(filepath.Join(s.dir, dataLink)))
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(s.dir, dataLink)))
	_, err := Load(s.files())
	require.ErrorContains(t, err, "leads out of its folder")
	plain := newSecret(t)
	for name, text := range content {
		require.NoError(t, os.WriteFile(filepath.Join(plain.dir, name), text, 0o400))
	}
	_, err = Load(plain.files())
	require.ErrorContains(t, err, "chmod 700", "without a mount's links the folder counts")
}

// stated is a file of an owner, a group and a mode.
type stated struct {
	fs.FileInfo
	mode     fs.FileMode
	uid, gid uint32
}

func (s stated) Mode() fs.FileMode { return s.mode }
func (s stated) Sys() any          { return &syscall.Stat_t{Uid: s.uid, Gid: s.gid} }

func TestWhoseFilesOfAMountAreUsed(t *testing.T) {
	self := owner{uid: 9800, groups: []int{9800, 7}}
	for name, tc := range map[string]struct {
		file    stated
		problem string
	}{
		"root's, for root":                 {file: stated{mode: 0o400}},
		"our own":                          {file: stated{mode: 0o600, uid: 9800}},
		"root's, of the pod's fsGroup":     {file: stated{mode: 0o440, gid: 9800}},
		"root's, of a further group":       {file: stated{mode: 0o440, gid: 7}},
		"root's, of a group of others":     {file: stated{mode: 0o440, gid: 8}, problem: "by the group 8"},
		"root's, of root's group":          {file: stated{mode: 0o440}, problem: "by the group 0"},
		"of a group that may write":        {file: stated{mode: 0o660, gid: 9800}, problem: "mode 0660"},
		"everybody's to read":              {file: stated{mode: 0o444}, problem: "mode 0444"},
		"another user's":                   {file: stated{mode: 0o400, uid: 1000}, problem: "belongs to the user 1000"},
		"a folder":                         {file: stated{mode: fs.ModeDir | 0o500}, problem: "is no file"},
		"a link, which leads anywhere":     {file: stated{mode: fs.ModeSymlink | 0o400}, problem: "is no file"},
		"another user's of our own group":  {file: stated{mode: 0o440, uid: 1000, gid: 9800}, problem: "belongs to the user 1000"},
		"everybody's to replace, not read": {file: stated{mode: 0o402}, problem: "mode 0402"},
	} {
		t.Run(name, func(t *testing.T) {
			err := self.checkMounted("/f", tc.file)
			if tc.problem == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.problem)
			}
		})
	}
}

// A mount cannot be written to: what an enrolment brings goes elsewhere.
func TestNothingIsWrittenIntoAMount(t *testing.T) {
	ca := newCA(t, "prod.example")
	s := newSecret(t)
	files := issue(t, ca, Node, "n1")
	s.publish(t, 0o400, contentOf(t, files))
	before, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	for range 2 {
		_, err := MakeRequest(filepath.Join(s.dir, "new.key"))
		require.ErrorContains(t, err, "name another folder")
		_, err = Issue(ca, s.dir, Identity{Role: Node, Name: "n1"}, time.Hour)
		require.ErrorContains(t, err, "name another folder")
		have, found, err := Installed(s.files().Cert)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "n1", have.Name)
	}
	after, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	require.Len(t, after, len(before))
}

// Kubelet links the first folder of an item's path only; the link itself may be named too.
func TestWaysIntoAMount(t *testing.T) {
	s := newSecret(t)
	s.publish(t, 0o400, map[string][]byte{"a": []byte("a")})
	version, err := versionIn(s.dir)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(version, "in"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(version, "in", "b"), []byte("b"), 0o400))
	require.NoError(t, os.Symlink(filepath.Join(dataLink, "in"), filepath.Join(s.dir, "in")))
	for path, want := range map[string]string{"a": "a", "in/b": "b", "..data/a": "a", "..data/in/b": "b", "./in/../a": "a"} {
		content, err := readPrivate(s.dir + "/" + path)
		require.NoError(t, err, path)
		require.Equal(t, want, string(content))
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "plain"), nil, 0o600))
	_, err = readPrivate(filepath.Join(s.dir, "plain"))
	require.ErrorContains(t, err, "chmod 700", "what no link leads to is no file of the mount")
	for range 2 {
		_, err := readPrivate(filepath.Join(s.dir, "none"))
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}
