package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/backuptest"
	"github.com/holdfast-storage/holdfast/raftnode/backup/target"
)

// fakeBackupAPI streams backups of a member; cut breaks the stream off.
type fakeBackupAPI struct {
	fakeAdminAPI
	member *backuptest.Member
	cut    bool
	slow   func(part int) bool // does not send that part
	stale  []bool
}

func newFakeBackupAPI(t *testing.T) *fakeBackupAPI {
	t.Helper()
	return &fakeBackupAPI{member: backuptest.New(t, "one")}
}

func (f *fakeBackupAPI) Backup(req *adminpb.BackupRequest, out adminpb.Admin_BackupServer) error {
	f.stale = append(f.stale, req.GetStale())
	var file bytes.Buffer
	wanted := backup.Request{Member: "c1", Increment: req.GetIncrement(), Since: req.GetSince(), Now: time.Now()}
	if req.GetBaseClusterId() != "" {
		wanted.Base = &backup.Header{ClusterID: req.GetBaseClusterId(), Incarnation: req.GetBaseIncarnation(), IncarnationID: req.GetBaseIncarnationId()}
	}
	_, err := backup.Take(out.Context(), f.member, wanted, &file)
	if errors.Is(err, backup.ErrRefused) {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	if err != nil {
		return err
	}
	parts := [][]byte{file.Bytes()[:10], file.Bytes()[10:]}
	if f.cut {
		parts = parts[:1]
	}
	for i, part := range parts {
		if f.slow != nil && f.slow(i) {
			<-out.Context().Done()
			return out.Context().Err()
		}
		if err := out.Send(&adminpb.BackupResponse{Part: part}); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command, and returns its output and its errors.
func run(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	require.Equal(t, code, Main(args, &out, &errs), "%v: %s", args, errs.String())
	return out.String(), errs.String()
}

// A backup that takes longer than it may says so, and how it gets more time, whatever gRPC says of its stream.
func TestABackupThatTakesTooLongSaysSo(t *testing.T) {
	for slowPart := range 2 {
		f := newFakeBackupAPI(t)
		f.slow = func(part int) bool { return part == slowPart }
		path := filepath.Join(t.TempDir(), "full")
		for range 2 {
			_, said := run(t, exit.Unavailable, append([]string{"backup", path, "--timeout", "300ms"}, serveAdmin(t, f)...)...)
			require.Contains(t, said, "back up to "+path+": ")
			require.Contains(t, said, "did not send all of it within 300ms: give it longer with --timeout")
			require.NotContains(t, said, "RST_STREAM")
			require.Equal(t, 1, strings.Count(said, "\n"), said)
			require.NoFileExists(t, path)
		}
	}
}

func TestBackupVerifyRestore(t *testing.T) {
	f := newFakeBackupAPI(t)
	api := serveAdmin(t, f)
	dir := t.TempDir()
	full, more := filepath.Join(dir, "full"), filepath.Join(dir, "more")
	call := func(code int, args ...string) (string, string) {
		t.Helper()
		return run(t, code, append(append([]string{"backup"}, args...), api...)...)
	}

	f.member.Nodes(1, 2)
	for range 2 {
		_, said := call(exit.OK, full)
		require.Contains(t, said, "backup of cluster one, incarnation 1, index 2, by c1")
	}
	streamed, _ := call(exit.OK, "-", "--stale")
	onDisk, err := os.ReadFile(full)
	require.NoError(t, err)
	require.Len(t, streamed, len(onDisk))
	require.Equal(t, []bool{false, false, true}, f.stale)

	f.member.Nodes(2, 4)
	_, said := call(exit.OK, more, "--since-backup", full)
	require.Contains(t, said, "increment of cluster one, incarnation 1, indexes 3 to 5")
	call(exit.OK, more, "--since", "2")
	call(exit.Usage, more, "--since", "2", "--since-backup", full)
	_, said = call(exit.Refused, more, "--since", "9")
	require.Contains(t, said, "index 9 is not reached")

	shown, _ := run(t, exit.OK, "backup", "verify", full, more)
	hash := f.member.State.Hash()
	for _, line := range []string{"cluster        one", "incarnation    1", "index          5", fmt.Sprintf("hash           %x", hash), "nodes          3"} {
		require.Contains(t, shown, line)
	}
	shown, _ = run(t, exit.OK, "backup", "verify", full, more, "--at", "4")
	require.Contains(t, shown, "nodes          2")
	run(t, exit.Refused, "backup", "verify", more)
	run(t, exit.Refused, "backup", "verify", full, more, "--at", "6")
	run(t, exit.Usage, "backup", "verify", filepath.Join(dir, "none"))
	run(t, exit.Usage, "backup", "verify")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "damaged"), onDisk[:len(onDisk)-1], 0o600))
	_, said = run(t, exit.Refused, "backup", "verify", filepath.Join(dir, "damaged"))
	require.Contains(t, said, "truncated")

	target := filepath.Join(dir, "c1")
	restore := []string{"restore", "--data-dir", target, "--backup", full, "--increment", more, "--advertise", "127.0.0.1:9800"}
	for range 2 {
		plan, said := run(t, exit.OK, restore...)
		require.Contains(t, plan, "replace incarnation 1 by 2")
		require.Contains(t, plan, "stays stopped")
		require.Contains(t, said, "nothing was changed")
		require.NoDirExists(t, target)
	}
	plan, _ := run(t, exit.OK, append(restore, "--yes")...)
	require.Contains(t, plan, "incarnation 2")
	require.FileExists(t, target+".founded")
	require.NoError(t, os.Symlink(target, filepath.Join(dir, "link")))
	plan, _ = run(t, exit.OK, "recover", "--data-dir", filepath.Join(dir, "link"), "--advertise", "127.0.0.1:9800")
	require.Contains(t, plan, "done already: "+target)
	plan, _ = run(t, exit.OK, append(restore, "--yes")...)
	require.Contains(t, plan, "was made from this state already")
	_, said = run(t, exit.Refused, append(restore, "--at", "4", "--yes")...)
	require.Contains(t, said, "needs an empty data folder")
	plan, _ = run(t, exit.OK, "recover", "--data-dir", target, "--advertise", "127.0.0.1:9800", "--yes")
	require.Contains(t, plan, "done already")
	run(t, exit.Usage, "restore", "--data-dir", target, "--backup", full, "--advertise", "0.0.0.0:9800")
	run(t, exit.Usage, "restore", "--backup", full, "--advertise", "127.0.0.1:9800")
	run(t, exit.Usage, append(restore, "--log-store", "paper")...)
	run(t, exit.Refused, "recover", "--data-dir", dir, "--advertise", "127.0.0.1:9800")
}

// An increment since a backup of before a restore could not be replayed on it: it is refused, and nothing is written.
func TestAnIncrementSinceABackupOfBeforeARestoreIsRefused(t *testing.T) {
	f := newFakeBackupAPI(t)
	api := serveAdmin(t, f)
	dir := t.TempDir()
	full, more := filepath.Join(dir, "full"), filepath.Join(dir, "more")
	f.member.Nodes(1, 5)
	run(t, exit.OK, append([]string{"backup", full}, api...)...)
	f.member = backuptest.New(t, "one")
	f.member.Nodes(1, 2)
	f.member.Apply(&fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_ReplaceIncarnation{ReplaceIncarnation: &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: []byte("fedcba9876543210")}}})
	f.member.Nodes(2, 9)
	for range 2 {
		_, said := run(t, exit.Refused, append([]string{"backup", more, "--since-backup", full}, api...)...)
		for _, text := range []string{"incarnation 2 (66656463626139383736353433323130)", "of 1 (30313233343536373839616263646566)", "make a full backup"} {
			require.Contains(t, said, text)
		}
		require.Equal(t, 1, strings.Count(said, "\n"), "one line: %s", said)
		require.NoFileExists(t, more)
	}
	run(t, exit.OK, append([]string{"backup", full}, api...)...)
	f.member.Nodes(9, 11)
	run(t, exit.OK, append([]string{"backup", more, "--since-backup", full}, api...)...)
	run(t, exit.OK, "backup", "verify", full, more)
}

func TestAnEncryptedBackupIsReadWithItsIdentity(t *testing.T) {
	f := newFakeBackupAPI(t)
	api := serveAdmin(t, f)
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "full"), filepath.Join(dir, "identity")
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(secret, []byte(identity.String()+"\n"), 0o600))
	run(t, exit.OK, append([]string{"backup", file, "--recipient", identity.Recipient().String()}, api...)...)
	run(t, exit.OK, "backup", "verify", file, "--identity", secret)
	_, said := run(t, exit.Refused, "backup", "verify", file)
	require.Contains(t, said, "--identity")
	run(t, exit.OK, append([]string{"backup", filepath.Join(dir, "more"), "--since-backup", file, "--identity", secret}, api...)...)
	_, said = run(t, exit.Usage, append([]string{"backup", file, "--recipient", identity.String()}, api...)...)
	require.NotContains(t, said, identity.String(), "a secret key that was given for a public one is not shown")
}

func TestABackupThatIsCutOffLeavesNothing(t *testing.T) {
	f := newFakeBackupAPI(t)
	f.cut = true
	file := filepath.Join(t.TempDir(), "full")
	_, said := run(t, exit.Refused, append([]string{"backup", file}, serveAdmin(t, f)...)...)
	require.Contains(t, said, "truncated")
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestBackupList(t *testing.T) {
	b := &backupsIn{t: t, member: backuptest.New(t, "one"), dir: t.TempDir()}
	m, dir, put := b.member, b.dir, b.put
	put(false, asItIs)
	m.Nodes(1, 4)
	put(true, asItIs)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "another file"), nil, 0o600))
	for range 2 {
		shown, _ := run(t, exit.OK, "backup", "list", "--backup-to", dir)
		require.Equal(t, 2, strings.Count(shown, "as named"))
		require.NotContains(t, shown, "another")
	}
	put(false, func(n *target.Name) { n.Index++ })
	shown, said := run(t, exit.Refused, "backup", "list", "--backup-to", dir)
	require.Contains(t, shown, "wrong")
	require.Contains(t, said, "1 are not what their names say")
	run(t, exit.Usage, "backup", "list")
	run(t, exit.Usage, "backup", "list", "--backup-to", "s3://")
	run(t, exit.Unavailable, "backup", "list", "--backup-to", filepath.Join(dir, "none"))
}
