package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/backuptest"
	"github.com/holdfast-storage/holdfast/raftnode/backup/target"
)

// backupsIn is a folder into which a member writes.
type backupsIn struct {
	t      *testing.T
	member *backuptest.Member
	dir    string
}

// put writes a backup under the name that change makes of its own.
func (b *backupsIn) put(increment bool, change func(*target.Name)) string {
	b.t.Helper()
	p, err := backup.Prepare(b.t.Context(), b.member, backup.Request{Member: "c1", Increment: increment, Since: 1, Now: time.Now()})
	require.NoError(b.t, err)
	n := target.NameOf(p.Header, false)
	change(&n)
	require.NoError(b.t, target.Folder(b.dir).Put(b.t.Context(), n.String(), func(w io.Writer) error { return p.Write(b.t.Context(), w) }))
	return n.String()
}

func asItIs(*target.Name) {}

func listedBackups(t *testing.T) (*backupsIn, [3]string) {
	t.Helper()
	b := &backupsIn{t: t, member: backuptest.New(t, "one"), dir: t.TempDir()}
	full := b.put(false, asItIs)
	b.member.Nodes(1, 4)
	more := b.put(true, asItIs)
	wrong := b.put(false, func(n *target.Name) { n.Index += 100 })
	return b, [3]string{full, more, wrong}
}

func TestBackupsAreSortedAndSelected(t *testing.T) {
	b, names := listedBackups(t)
	for args, want := range map[string][]string{
		"":                                 {names[0], names[1], names[2]},
		"--sort-by kind,-index":            {names[2], names[0], names[1]},
		"--kind increment":                 {names[1]},
		"--condition as-named --kind full": {names[0]},
		"--condition encrypted,wrong --cluster other": nil,
	} {
		for range 2 {
			stdout, stderr := run(t, exit.Refused, append([]string{"backup", "list", "--backup-to", b.dir, "-o", "json"}, strings.Fields(args)...)...)
			require.Contains(t, stderr, "1 are not what their names say", "shown or not")
			var got struct {
				Target  string
				Backups []struct{ Name string }
			}
			require.NoError(t, json.Unmarshal([]byte(stdout), &got))
			require.Equal(t, b.dir, got.Target)
			var found []string
			for _, file := range got.Backups {
				found = append(found, file.Name)
			}
			require.Equal(t, want, found, args)
		}
	}
	table, _ := run(t, exit.Refused, "backup", "list", "--backup-to", b.dir)
	require.Regexp(t, `^KIND +CLUSTER +INCARNATION +SINCE +INDEX +TIME +HEADER +NAME\n`, table)
	require.NotContains(t, table, "its header is that of")
	wide, _ := run(t, exit.Refused, "backup", "list", "--backup-to", b.dir, "-o", "wide")
	require.Contains(t, wide, "its header is that of holdfast_one_")
	require.Contains(t, wide, "AGE")
}

// TestAWatchOfBackupsGoesOn: over a folder that is away, one that is wrong, and one that is removed.
func TestAWatchOfBackupsGoesOn(t *testing.T) {
	b, names := listedBackups(t)
	require.NoError(t, os.Remove(filepath.Join(b.dir, names[2])))
	w := watch(t, "backup", "list", "--backup-to", b.dir)
	require.Regexp(t, `^TIME +CHANGE +KIND`, w.line(w.stdout))
	require.Regexp(t, `added +full .* as named +`+names[0], w.line(w.stdout))
	require.Regexp(t, `added +increment .* as named +`+names[1], w.line(w.stdout))
	wrong := b.put(false, func(n *target.Name) { n.Index += 200 })
	require.Regexp(t, `added +full .* wrong +`+wrong, w.line(w.stdout))
	for range 2 {
		require.NoError(t, os.Rename(b.dir, b.dir+".away"))
		require.Contains(t, w.line(w.stderr), "the watch goes on")
		require.NoError(t, os.Rename(b.dir+".away", b.dir))
		require.Contains(t, w.line(w.stderr), "answered again")
	}
	require.NoError(t, os.Remove(filepath.Join(b.dir, wrong)))
	require.Regexp(t, `removed +full .* wrong +`+wrong, w.line(w.stdout))
	w.end()
}

// removing is a target whose files are removed before they are read.
type removing struct{ target.Folder }

func (r removing) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := r.Remove(ctx, name); err != nil {
		return nil, err
	}
	return r.Folder.Open(ctx, name)
}

func TestABackupThatIsRemovedMeanwhileIsNotWrong(t *testing.T) {
	b, names := listedBackups(t)
	looked := &backupFolder{to: removing{target.Folder(b.dir)}, asNamed: map[target.Name]bool{}}
	first, ok := target.ParseName(names[0])
	require.True(t, ok)
	looked.asNamed[first] = true
	for range 2 {
		resp, err := looked.look(t.Context())
		require.NoError(t, err)
		require.Len(t, resp.GetBackups(), 1)
		require.Equal(t, names[0], resp.GetBackups()[0].GetName(), "it was read before, and is there")
	}
}
