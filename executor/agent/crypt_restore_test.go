package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// restoreHeader is the operator's decision.
func (w *testHost) restoreHeader(id fsm.VolumeID) {
	w.t.Helper()
	v, _ := w.volume(id)
	w.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_RestoreHeader{RestoreHeader: &fsmpb.RestoreHeader{
		VolumeId: string(id), NodeId: "n1", HostId: string(v.Replicas[0].Host), LuksUuid: v.Crypt.UUID,
	}}})
}

func (w *testHost) headerBackup(id fsm.VolumeID) string {
	return filepath.Join(w.dir, "headers", string(id)+".luks")
}

// S62: a header that is lost is restored from the host's backup where an operator decided so, once it is staged; nothing
// is formatted, the condition ends, and said again nothing is written.
func TestS62_ALostHeaderIsRestoredByDecision(t *testing.T) {
	w, f := newCryptHost(t)
	w.health = 10 * time.Millisecond
	w.start(nil)
	id, epoch := w.stagedEncrypted(mountCap)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	f.setHeader(id, nil)
	err := w.stageWith(id, epoch, mountCap, rightKeys...)
	require.Equal(t, fsm.Precondition, reasonOf(err))
	require.ErrorContains(t, err, "holdfast volumes restore-header "+string(id), "what to type")
	require.Zero(t, f.count("restore"), "not by itself")
	w.eventually(func() bool { v, _ := w.volume(id); return v.Condition.Abnormal }, "it is the volume's condition")
	for range 2 {
		w.restoreHeader(id)
	}
	for range 2 {
		require.NoError(t, w.stageWith(id, epoch, mountCap, rightKeys...))
	}
	require.Equal(t, 1, f.count("restore"))
	require.Equal(t, 1, f.count("format"))
	require.Equal(t, 1, w.mounter.count("mkfs"))
	w.eventually(func() bool { v, _ := w.volume(id); return !v.Condition.Abnormal && v.HeaderRestore == nil }, "both have ended")
	w.restoreHeader(id) // again, although the header is there
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	require.NoError(t, w.stageWith(id, epoch, mountCap, rightKeys...))
	require.Equal(t, 1, f.count("restore"), "what is there is not written over")
}

// S62: no backup, one of another header, or one that opens nothing: a clear refusal, and nothing is written.
func TestS62_OnlyTheRightBackupIsWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(w *testHost, f *fakeEncryptor, file string)
		want  string
	}{
		"none": {func(w *testHost, _ *fakeEncryptor, file string) { require.NoError(w.t, os.Remove(file)) }, "no backup"},
		"of another header": {func(_ *testHost, f *fakeEncryptor, file string) {
			f.backups[file] = fakeHeader{uuid: "11111111-2222-4333-8444-555555555555", keys: map[int]string{0: keyCanary}}
		}, "is of the LUKS header 11111111"},
		"without a slot": {func(_ *testHost, f *fakeEncryptor, file string) {
			f.backups[file] = fakeHeader{uuid: f.backups[file].uuid}
		}, "no backup"},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := startCryptHost(t)
			id, epoch := w.stagedEncrypted(mountCap)
			require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
			f.setHeader(id, nil)
			tc.spoil(w, f, w.headerBackup(id))
			w.restoreHeader(id)
			for range 2 {
				err := w.stageWith(id, epoch, mountCap, rightKeys...)
				require.Equal(t, fsm.Precondition, reasonOf(err))
				require.ErrorContains(t, err, tc.want)
			}
			require.Zero(t, f.count("restore"))
			require.Nil(t, f.header(id))
			require.Equal(t, 1, f.count("format"))
			require.Equal(t, 1, w.mounter.count("mkfs"))
		})
	}
}

// S62: a backup from before another host replaced the key is not written: that host's own could not be written over it.
func TestS62_ABackupThatThePassphraseDoesNotOpenIsNotWritten(t *testing.T) {
	w, f := startCryptHost(t)
	id, epoch := w.stagedEncrypted(mountCap)
	file, newer := w.headerBackup(id), executor.NewPassphrase("the newer passphrase")
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	f.setHeader(id, nil)
	w.restoreHeader(id)
	for range 2 {
		require.Equal(t, fsm.Unauthenticated, reasonOf(w.stageWith(id, epoch, mountCap, newer)))
		require.Zero(t, f.count("restore"))
		require.Nil(t, f.header(id))
	}
	require.Equal(t, map[int]string{0: keyCanary}, f.backups[file].keys)
	require.NoError(t, w.stageWith(id, epoch, mountCap, newer, rightKeys[0]), "the one of before is said, too")
	require.Equal(t, 1, f.count("restore"))
}

// S65: each opening replaces the host's backup, and removing the volume removes it.
func TestS65_WhoOpensAVolumeHasABackupOfItsHeader(t *testing.T) {
	w, f := startCryptHost(t)
	id, epoch := w.stagedEncrypted(mountCap)
	file := w.headerBackup(id)
	facts, err := w.e.VolumeFacts(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, f.header(id).uuid, facts.HeaderBackup)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	f.setHeader(id, &fakeHeader{uuid: facts.HeaderBackup, keys: map[int]string{3: keyCanary}}) // another host changed its keys
	require.NoError(t, w.stageWith(id, epoch, mountCap, rightKeys...))
	require.Equal(t, map[int]string{3: keyCanary}, f.backups[file].keys)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	require.NoError(t, w.unpublishVolume(id))
	require.NoError(t, w.deleteVolume(id))
	w.eventually(func() bool { _, known := w.volume(id); return !known }, "the host reported it gone")
	require.NoFileExists(t, file)
}

// S65: the host that takes a replicated volume over has a backup too, and restores from it.
func TestS65_AHostThatTakesOverHasABackup(t *testing.T) {
	p, encryptors := newCryptPair(t)
	id := p.create(fsmpb.Protocol_PROTOCOL_C)
	for _, m := range p.hosts {
		m.stage(id, m.publish(id))
		facts, err := m.e.VolumeFacts(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, p.volume(id).Crypt.UUID, facts.HeaderBackup)
		m.unstage(id)
		m.unpublish(id)
	}
	m := p.hosts[1]
	epoch := m.publish(id)
	encryptors[1].setHeader(id, nil)
	v := p.volume(id)
	p.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_RestoreHeader{RestoreHeader: &fsmpb.RestoreHeader{
		VolumeId: string(id), NodeId: "n2", HostId: string(v.Publication("n2").Host), LuksUuid: v.Crypt.UUID,
	}}})
	m.stage(id, epoch)
	require.Equal(t, 1, encryptors[1].count("restore"))
	m.unstage(id)
	m.unpublish(id)
	p.remove(id)
}

// S62: killed before and after it wrote the backup, it goes on.
func TestS62_ACrashWhileAHeaderIsRestored(t *testing.T) {
	for _, point := range []string{"luks-restore.before", "luks-restore.after"} {
		t.Run(point, func(t *testing.T) {
			w, encryptor := newCryptHost(t)
			f := stopAt(point, 0)
			o := &orchestrator{crashHost: w, t: t, f: f}
			o.e = w.start(f)
			id, epoch := w.stagedEncrypted(mountCap)
			require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
			encryptor.setHeader(id, nil)
			w.restoreHeader(id)
			req := w.stageRequest(id, epoch, mountCap)
			req.Keys = rightKeys
			o.retry("stage", func(ctx context.Context, e *agent.Agent) error { return e.Stage(ctx, req) })
			require.True(t, f.hits[point])
			require.Equal(t, 1, encryptor.count("format"))
			require.LessOrEqual(t, encryptor.count("restore"), 2)
		})
	}
}
