package cli

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/foldertest"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/backuptest"
)

// restoring are the files of a restore: a full backup and an increment, plain and encrypted, and a folder with an empty data folder.
type restoring struct {
	t                    *testing.T
	dir, target          string
	full, more           string
	sealed, sealedMore   string
	identity, other      string // files with the identity that decrypts, and with another one
	foreign, foreignMore string // of another cluster
}

func newRestoring(t *testing.T) *restoring {
	t.Helper()
	r := &restoring{t: t, dir: t.TempDir(), target: filepath.Join(t.TempDir(), "c1")}
	require.NoError(t, os.Mkdir(r.target, 0o700))
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	stranger, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	r.identity, r.other = r.file("identity", []byte(key.String()+"\n")), r.file("other", []byte(stranger.String()+"\n"))
	one, two := backuptest.New(t, "one").Nodes(1, 9), backuptest.New(t, "two").Nodes(1, 9)
	r.full, r.sealed = r.take(one, "full", 0), r.take(one, "sealed", 0, key.Recipient())
	r.foreign = r.take(two, "foreign", 0)
	since := one.Index
	r.more, r.sealedMore = r.take(one.Nodes(9, 12), "more", since), r.take(one, "sealed-more", since, key.Recipient())
	r.foreignMore = r.take(two.Nodes(9, 12), "foreign-more", since)
	return r
}

func (r *restoring) file(name string, content []byte) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(r.t, os.WriteFile(path, content, 0o600))
	return path
}

// take writes a backup of a member; an increment above since where that is not 0.
func (r *restoring) take(m *backuptest.Member, name string, since uint64, recipients ...age.Recipient) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(r.t, backup.CreateFile(path, func(w io.Writer) error {
		out, err := backup.Encrypt(w, recipients)
		require.NoError(r.t, err)
		_, err = backup.Take(r.t.Context(), m, backup.Request{Member: "c1", Increment: since > 0, Since: since, Now: time.Now()}, out)
		return errors.Join(err, out.Close())
	}))
	return path
}

func (r *restoring) read(path string) []byte {
	r.t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(r.t, err)
	return content
}

func (r *restoring) command(full string, more ...string) []string {
	return append([]string{"restore", "--data-dir", r.target, "--backup", full, "--advertise", "127.0.0.1:9800", "--yes"}, more...)
}

// refused: the command refuses in one line that names the reason, and nothing is changed; twice.
func (r *restoring) refused(why string, args ...string) {
	r.t.Helper()
	before := foldertest.Tree(r.t, filepath.Dir(r.target)) // what is beside the data folder, too
	for range 2 {
		out, said := run(r.t, exit.Refused, args...)
		require.Empty(r.t, out)
		require.Equal(r.t, 1, strings.Count(said, "\n"), said)
		require.Contains(r.t, said, why, args)
		require.Equal(r.t, before, foldertest.Tree(r.t, filepath.Dir(r.target)))
	}
}

// inBackup changes a part of a backup's header, and makes its checksum anew.
func inBackup(content []byte, from, to string) []byte {
	body := bytes.Replace(content[:len(content)-sha256.Size], []byte(from), []byte(to), 1)
	sum := sha256.Sum256(body)
	return append(body, sum[:]...)
}

// TestS24_ARestoreOfWhatIsNoGoodBackupChangesNothing: truncated, flipped in each of its regions, of another cluster, of a newer build, or
// not to be decrypted, as the full backup and as an increment.
func TestS24_ARestoreOfWhatIsNoGoodBackupChangesNothing(t *testing.T) {
	r := newRestoring(t)
	newer := func(content []byte) []byte { return inBackup(content, `"feature_level":3`, `"feature_level":9`) }
	format := func(content []byte) []byte {
		return inBackup(content, "HFBACKUP\x00\x00\x00\x01", "HFBACKUP\x00\x00\x00\x02")
	}
	flip := func(at func(size int) int) func([]byte) []byte {
		return func(content []byte) []byte {
			changed := bytes.Clone(content)
			changed[at(len(content))] ^= 0x10
			return changed
		}
	}
	cut := func(at func(size int) int) func([]byte) []byte {
		return func(content []byte) []byte { return content[:at(len(content))] }
	}
	for _, tc := range []struct {
		name, why, sealed string // why it is refused, and why where it is encrypted; empty: it cannot be made of an encrypted one
		damage            func([]byte) []byte
	}{
		{"empty", "it is truncated", "it is truncated", cut(func(int) int { return 0 })},
		{"cut in the header", "it is truncated", "decrypt it", cut(func(int) int { return 40 })},
		{"cut in the middle", "it is truncated", "the backup cannot be used", cut(func(size int) int { return size / 2 })},
		{"cut by a byte", "it is truncated", "the backup cannot be used", cut(func(size int) int { return size - 1 })},
		{"flipped at the begin", "it does not begin as a backup", "it does not begin as a backup", flip(func(int) int { return 3 })},
		{"flipped in the header", "the backup cannot be used", "decrypt it", flip(func(int) int { return 60 })},
		{"flipped in the middle", "the backup cannot be used", "the backup cannot be used", flip(func(size int) int { return size / 2 })},
		{"flipped in the trailer", "its checksum is wrong", "the backup cannot be used", flip(func(size int) int { return size - 1 })},
		{"longer", "the backup cannot be used", "the backup cannot be used", func(content []byte) []byte { return append(bytes.Clone(content), 0) }},
		{"of a newer format", "its format is 2, this build reads 1 only", "", format},
		{"of a newer level", "its feature level is 9, this build understands 3 at most", "", newer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := *r
			r.t = t
			r.refused(tc.why, r.command(r.file("bad", tc.damage(r.read(r.full))))...)
			r.refused(tc.why, r.command(r.full, "--increment", r.file("bad", tc.damage(r.read(r.more))))...)
			if tc.sealed == "" {
				return
			}
			r.refused(tc.sealed, r.command(r.file("bad", tc.damage(r.read(r.sealed))), "--identity", r.identity)...)
			r.refused(tc.sealed, r.command(r.sealed, "--identity", r.identity, "--increment", r.file("bad", tc.damage(r.read(r.sealedMore))))...)
		})
	}
	r.refused("name the file of a recipient's identity with --identity", r.command(r.sealed)...)
	r.refused("decrypt it", r.command(r.sealed, "--identity", r.other)...)
	r.refused("decrypt it", r.command(r.full, "--increment", r.sealedMore, "--identity", r.other)...)
	r.refused("it is of cluster two, the full backup of one", r.command(r.full, "--increment", r.foreignMore)...)
	run(t, exit.OK, r.command(r.sealed, "--identity", r.identity, "--increment", r.sealedMore)...) // as good ones are
}

// TestARestoreOfAnotherClustersBackup: --cluster names the one that is meant; without it the marker beside a folder that is lost does.
func TestARestoreOfAnotherClustersBackup(t *testing.T) {
	r := newRestoring(t)
	r.refused("it is of cluster two, and --cluster names one", r.command(r.foreign, "--cluster", "one")...)
	plan, _ := run(t, exit.OK, "restore", "--data-dir", r.target, "--backup", r.foreign, "--advertise", "127.0.0.1:9800")
	require.Contains(t, plan, "backup of cluster two, incarnation 1", "the plan names it")
	run(t, exit.Refused, "backup", "verify", r.foreign, "--cluster", "one")
	run(t, exit.OK, "backup", "verify", r.foreign, "--cluster", "two")

	run(t, exit.OK, r.command(r.full, "--cluster", "one")...)
	r.refused("of cluster one, and a restore needs an empty data folder", r.command(r.foreign)...)
	require.NoError(t, os.RemoveAll(r.target))
	r.refused("says that cluster one was founded here", r.command(r.foreign)...)
	run(t, exit.OK, r.command(r.full)...)
	require.NoError(t, os.RemoveAll(r.target))
	for range 2 {
		run(t, exit.OK, r.command(r.foreign, "--cluster", "two")...)
	}
	require.NoError(t, os.RemoveAll(r.target))
	r.refused("says that cluster two was founded here", r.command(r.full)...)
	require.NoError(t, os.WriteFile(r.target+".founded", []byte("?"), 0o600))
	r.refused("read the marker", r.command(r.full)...)
	require.NoError(t, os.WriteFile(r.target+".founded", []byte(`{"member":"of an older build"}`), 0o600))
	run(t, exit.OK, r.command(r.full)...)
}
