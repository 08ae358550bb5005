package backup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/backup/backuptest"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

type member struct {
	*backuptest.Member
	t *testing.T
}

func newMember(t *testing.T, cluster string) member {
	t.Helper()
	return member{backuptest.New(t, cluster), t}
}

func (m member) nodes(from, to int) member {
	m.t.Helper()
	m.Nodes(from, to)
	return m
}

// take writes a backup to a file.
func (m member) take(r Request, recipients ...age.Recipient) (string, Header) {
	m.t.Helper()
	r.Member, r.Now = "c1", time.Now()
	path := filepath.Join(m.t.TempDir(), "backup")
	var h Header
	require.NoError(m.t, CreateFile(path, func(w io.Writer) (err error) {
		out, err := Encrypt(w, recipients)
		require.NoError(m.t, err)
		h, err = Take(m.t.Context(), m, r, out)
		return errors.Join(err, out.Close())
	}))
	return path, h
}

func requireState(t *testing.T, want *fsm.State, c *Content) {
	t.Helper()
	require.Equal(t, want.Cluster().Index, c.Index())
	require.Equal(t, want.Hash(), c.State.Hash())
}

func TestABackupGivesTheState(t *testing.T) {
	m := newMember(t, "one").nodes(0, 50)
	path, h := m.take(Request{})
	for range 2 {
		c, err := Load(Files{Full: path})
		require.NoError(t, err)
		requireState(t, m.State, c)
		require.Equal(t, h, c.Full)
		require.EqualValues(t, 7, c.Term)
	}
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
}

func TestIncrementsGiveTheStateAtAnyIndex(t *testing.T) {
	m := newMember(t, "one").nodes(0, 5)
	full, h := m.take(Request{})
	states := map[uint64]*fsm.State{m.Index: m.State.Fork()}
	var increments []string
	for i := range 3 {
		for k := range 4 {
			m.nodes(10*(i+1)+k, 10*(i+1)+k+1)
			states[m.Index] = m.State.Fork()
		}
		path, next := m.take(Request{Increment: true, Since: h.Index})
		require.Equal(t, h.Index, next.Since)
		increments, h = append([]string{path}, increments...), next // in any order
	}
	c, err := Load(Files{Full: full, Increments: increments})
	require.NoError(t, err)
	requireState(t, m.State, c)
	for index, want := range states {
		c, err := Load(Files{Full: full, Increments: increments, At: index})
		require.NoError(t, err)
		requireState(t, want, c)
	}
	_, err = Load(Files{Full: full, Increments: increments, At: m.Index + 1})
	require.ErrorIs(t, err, ErrMismatch)
	_, err = Load(Files{Full: full, At: 1})
	require.ErrorContains(t, err, "take an older backup")
	_, err = Load(Files{Full: full, Increments: []string{increments[0], increments[2]}}) // without the one between
	require.ErrorContains(t, err, "an increment is missing")
	_, err = Load(Files{Full: increments[0]})
	require.ErrorContains(t, err, "name the full backup first")
	_, err = Load(Files{Full: full, Increments: []string{full}})
	require.ErrorContains(t, err, "not an increment")
	c, err = Load(Files{Full: full, Increments: append(increments, increments...)}) // each twice
	require.NoError(t, err)
	requireState(t, m.State, c)
}

func TestAnIncrementWithASkippedEntry(t *testing.T) {
	m := newMember(t, "one").nodes(0, 2)
	full, h := m.take(Request{})
	unreadable := []byte("no command at all")
	m.Index++
	m.State.Skip(m.Index, sha(unreadable), new(fsmpb.Command))
	require.NoError(t, m.Journal.Append(journal.Entry{Index: m.Index, Term: 7, Command: unreadable}))
	m.nodes(2, 4)
	path, _ := m.take(Request{Increment: true, Since: h.Index})
	c, err := Load(Files{Full: full, Increments: []string{path}})
	require.NoError(t, err)
	requireState(t, m.State, c)
}

func TestBackupsOfOtherHistoriesAreRefused(t *testing.T) {
	one, two := newMember(t, "one").nodes(0, 3), newMember(t, "two").nodes(0, 3)
	full, h := one.take(Request{})
	foreign, _ := two.nodes(3, 5).take(Request{Increment: true, Since: h.Index})
	_, err := Load(Files{Full: full, Increments: []string{foreign}})
	require.ErrorContains(t, err, "it is of cluster two, the full backup of one")

	fork := newMember(t, "one").nodes(0, 2).nodes(7, 8) // the same cluster, another history
	path, _ := fork.nodes(3, 5).take(Request{Increment: true, Since: h.Index})
	_, err = Load(Files{Full: full, Increments: []string{path}})
	require.ErrorIs(t, err, ErrMismatch)
}

func (m member) replaceIncarnation(id string) {
	m.t.Helper()
	counter := m.State.Cluster().Incarnation + 1
	m.Apply(&fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_ReplaceIncarnation{ReplaceIncarnation: &fsmpb.ReplaceIncarnation{Counter: counter, IncarnationId: []byte(id)}}})
}

// A recovery keeps the indexes and the journal: the entry that replaced the incarnation is in the increment, and its end proves
// what is replayed. Who says which backup is continued is told to begin anew.
func TestAnIncrementGoesOnAcrossARecovery(t *testing.T) {
	m := newMember(t, "one").nodes(0, 3)
	full, h := m.take(Request{})
	early, _ := m.nodes(3, 4).take(Request{Increment: true, Since: h.Index})
	before := m.State.Fork()
	m.replaceIncarnation("fedcba9876543210")
	m.nodes(4, 6)
	for range 2 {
		_, err := Prepare(t.Context(), m, Request{Increment: true, Since: h.Index, Of: &h})
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorContains(t, err, "take a full backup")
	}
	across, next := m.take(Request{Increment: true, Since: h.Index})
	between := m.State.Fork()
	m.replaceIncarnation("00112233445566ff")
	after, _ := m.nodes(6, 8).take(Request{Increment: true, Since: next.Index})
	for range 2 {
		c, err := Load(Files{Full: full, Increments: []string{across}})
		require.NoError(t, err)
		requireState(t, between, c)
		c, err = Load(Files{Full: full, Increments: []string{after, across, early}})
		require.NoError(t, err)
		requireState(t, m.State, c)
		require.EqualValues(t, 3, c.State.Cluster().Incarnation)
		c, err = Load(Files{Full: full, Increments: []string{across, after}, At: before.Cluster().Index})
		require.NoError(t, err)
		requireState(t, before, c)
		_, err = Load(Files{Full: full, Increments: []string{after}})
		require.ErrorContains(t, err, "an increment is missing")
	}
}

// A restore issues indexes again: what was written after it continues no backup of the lost part of the log.
func TestAnIncrementOfAnotherLifeIsRefused(t *testing.T) {
	restored := func(others, more int) member {
		other := newMember(t, "one").nodes(0, 3).nodes(10, 10+others)
		other.replaceIncarnation("fedcba9876543210")
		return other.nodes(20, 20+more)
	}
	full, h := newMember(t, "one").nodes(0, 6).take(Request{})
	for name, tc := range map[string]struct {
		other member
		since uint64
		want  string
	}{
		"replaced before it begins":               {restored(0, 8), h.Index, "it is of incarnation 2"},
		"replaced where the full backup has more": {restored(0, 8), 2, "it is of incarnation 2"},
		"ends before the full backup":             {restored(0, 1), 2, "it is of incarnation 2"},
		"replaced above other entries":            {restored(8, 2), h.Index, "its header says index"},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := tc.other.take(Request{Increment: true, Since: tc.since})
			for range 2 {
				_, err := Load(Files{Full: full, Increments: []string{path}})
				require.ErrorIs(t, err, ErrMismatch)
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestWhatTheJournalLacksIsNamed(t *testing.T) {
	m := newMember(t, "one").nodes(0, 3)
	refused := func(text string, r Request) {
		t.Helper()
		for range 2 {
			_, err := Take(t.Context(), m, r, io.Discard)
			require.ErrorIs(t, err, ErrRefused)
			require.ErrorContains(t, err, text)
		}
	}
	since := m.Index
	require.NoError(t, m.Journal.Restored(m.Index+5))
	m.Index += 5
	m.nodes(4, 6)
	refused(fmt.Sprintf("has a gap from index %d to %d", since+1, since+5), Request{Increment: true, Since: since})
	refused("is not reached", Request{Increment: true, Since: m.Index + 1})

	m.NewJournal()
	m.nodes(6, 7)
	refused("begins at index", Request{Increment: true, Since: 1})
}

// Every byte counts: flipped, cut off or added, the file is refused.
func TestADamagedBackupIsRefused(t *testing.T) {
	m := newMember(t, "one").nodes(0, 20)
	full, h := m.take(Request{})
	increment, _ := m.nodes(20, 30).take(Request{Increment: true, Since: h.Index})
	for _, path := range []string{full, increment} {
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		refused := func(content []byte, what string, at int) {
			_, err := Check(bytes.NewReader(content))
			require.Error(t, err, "%s at %d", what, at)
			require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewer), "%s at %d: %v", what, at, err)
		}
		for i := range whole {
			content := bytes.Clone(whole)
			content[i] ^= 1 << (i % 8)
			refused(content, "flipped", i)
			refused(whole[:i], "truncated", i)
		}
		refused(append(bytes.Clone(whole), 0), "longer", len(whole))
	}
}

func TestANewerBackupIsRefused(t *testing.T) {
	m := newMember(t, "one")
	path, h := m.take(Request{})
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	whole[len(magic)+3]++
	_, err = Check(bytes.NewReader(whole))
	require.ErrorIs(t, err, ErrNewer)
	require.ErrorContains(t, err, "its format is 2")

	var level, kind bytes.Buffer
	newer := h
	newer.FeatureLevel = fsm.MaxFeatureLevel + 1
	require.NoError(t, write(&level, newer, func(io.Writer) error { return nil }))
	_, err = Check(&level)
	require.ErrorIs(t, err, ErrNewer)
	newer = h
	newer.Kind = "other"
	require.NoError(t, write(&kind, newer, func(io.Writer) error { return nil }))
	_, err = Check(&kind)
	require.ErrorIs(t, err, ErrNewer)
}

func TestAHeaderThatLiesIsRefused(t *testing.T) {
	m := newMember(t, "one").nodes(0, 2)
	_, h := m.take(Request{})
	for name, change := range map[string]func(*Header){
		"cluster": func(h *Header) { h.ClusterID = "two" }, "index": func(h *Header) { h.Index++ },
		"hash": func(h *Header) { h.StateHash = "00" }, "incarnation": func(h *Header) { h.Incarnation++ },
	} {
		t.Run(name, func(t *testing.T) {
			lie := h
			change(&lie)
			path := filepath.Join(t.TempDir(), "lie")
			require.NoError(t, CreateFile(path, func(w io.Writer) error {
				return write(w, lie, func(w io.Writer) error { return m.State.WriteDump(w, 7) })
			}))
			_, err := Load(Files{Full: path})
			require.Error(t, err)
		})
	}
}

func TestAnEncryptedBackup(t *testing.T) {
	mine, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	other, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	list := filepath.Join(t.TempDir(), "recipients")
	require.NoError(t, os.WriteFile(list, []byte("# of the operators\n"+mine.Recipient().String()+"\n"), 0o600))
	recipients, err := Recipients([]string{other.Recipient().String()}, list)
	require.NoError(t, err)
	require.Len(t, recipients, 2)

	m := newMember(t, "a-name-to-look-for").nodes(0, 3)
	path, _ := m.take(Request{}, recipients...)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(whole), "a-name-to-look-for")
	for _, identity := range []age.Identity{mine, other} {
		c, err := Load(Files{Full: path, Identities: []age.Identity{identity}})
		require.NoError(t, err)
		requireState(t, m.State, c)
	}
	_, err = Load(Files{Full: path})
	require.ErrorContains(t, err, "--identity")
	stranger, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	_, err = Load(Files{Full: path, Identities: []age.Identity{stranger}})
	require.ErrorIs(t, err, ErrDamaged)
	for i := 0; i < len(whole); i += 7 {
		content := bytes.Clone(whole)
		content[i] ^= 4
		r, err := Decrypt(bytes.NewReader(content), []age.Identity{mine})
		if err == nil {
			_, err = Check(r)
		}
		require.Error(t, err, "flipped at %d", i)
	}
	secret := filepath.Join(t.TempDir(), "identity")
	require.NoError(t, os.WriteFile(secret, []byte("AGE-SECRET-KEY-1BROKEN\n"), 0o600))
	_, err = Identities(secret)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "BROKEN")
}

func TestAnInterruptedFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		err := CreateFile(filepath.Join(dir, "backup"), func(w io.Writer) error {
			_, err := w.Write([]byte("some"))
			require.NoError(t, err)
			return errors.New("interrupted")
		})
		require.ErrorContains(t, err, "interrupted")
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

func TestReceiveChecksWhatItWrites(t *testing.T) {
	m := newMember(t, "one").nodes(0, 40)
	path, h := m.take(Request{})
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	send := func(content []byte, failure error) (Header, error) {
		var got bytes.Buffer
		h, err := Receive(&got, func(w io.Writer) error {
			for part := range bytes.SplitSeq(content, []byte("n1")) {
				_, _ = w.Write(part)
				_, _ = w.Write([]byte("n1"))
			}
			return failure
		})
		return h, err
	}
	_, err = send(append(whole, "n1"...), nil) // one separator too many
	require.ErrorIs(t, err, ErrDamaged)
	_, err = send(whole, errors.New("cut off"))
	require.ErrorContains(t, err, "cut off")
	got, err := Receive(io.Discard, func(w io.Writer) error { _, err := w.Write(whole); return err })
	require.NoError(t, err)
	require.Equal(t, h, got)
}

func sha(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:]
}
