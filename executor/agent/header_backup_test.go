package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func (m *member) headerBackup(id fsm.VolumeID) string {
	return filepath.Join(m.dir, "headers", string(id)+".luks")
}

func (m *member) hasHeaderBackup(id fsm.VolumeID) bool {
	_, err := os.Stat(m.headerBackup(id))
	return err == nil
}

// rotatedAway is a volume that the first host staged once, and whose key was then replaced on the second while away
// was called. The first host is not heard from.
func rotatedAway(t *testing.T) (p *pair, encryptors [2]*fakeEncryptor, id fsm.VolumeID) {
	t.Helper()
	p, encryptors = newCryptPair(t)
	id = p.create(fsmpb.Protocol_PROTOCOL_C)
	a, b := p.hosts[0], p.hosts[1]
	a.stage(id, a.publish(id))
	a.unstage(id)
	a.unpublish(id)
	a.stop()
	b.stage(id, b.publish(id))
	require.NoError(t, b.e.RotateKey(t.Context(), rotateTo(id, newKey, oldKey)))
	require.True(t, a.hasHeaderBackup(id), "it was not told yet")
	return p, encryptors, id
}

// S65: a host that was away while the key was replaced removes its copy of the header of before as soon as it hears of
// that, and not the copy of the header that it opens later.
func TestS65_AHostThatWasAwayRemovesItsCopyOfAnOlderHeader(t *testing.T) {
	p, encryptors, id := rotatedAway(t)
	a, b := p.hosts[0], p.hosts[1]
	for range 2 {
		a.start(nil)
		p.eventually("the copy that the old key opens is gone", func() bool { return !a.hasHeaderBackup(id) })
		facts, err := a.e.VolumeFacts(t.Context(), id)
		require.NoError(t, err)
		require.Empty(t, facts.HeaderBackup)
		a.stop()
	}
	facts, err := b.e.VolumeFacts(t.Context(), id)
	require.NoError(t, err)
	require.EqualValues(t, 1, facts.HeaderBackupGeneration)
	require.True(t, b.hasHeaderBackup(id))
	b.unstage(id)
	b.unpublish(id)
	p.stageKeys = []executor.Passphrase{newKey}
	a.start(nil)
	for range 2 {
		a.stage(id, a.publish(id))
		facts, err = a.e.VolumeFacts(t.Context(), id)
		require.NoError(t, err)
		require.EqualValues(t, 1, facts.HeaderBackupGeneration)
		require.Equal(t, map[int]string{1: string(newKey.Reveal())}, encryptors[0].backups[a.headerBackup(id)].keys)
		a.unstage(id)
		a.unpublish(id)
		a.stop()
		a.start(nil)
	}
	require.True(t, a.hasHeaderBackup(id), "it is of the present key")
	p.remove(id)
}

// S65: killed before and after it removed the copy, the host removes it.
func TestS65_ACrashWhileAnOlderCopyIsRemoved(t *testing.T) {
	for _, point := range []string{"stale-header.before", "stale-header.after"} {
		t.Run(point, func(t *testing.T) {
			p, _, id := rotatedAway(t)
			a := p.hosts[0]
			f := stopAt(point, 0)
			a.start(f)
			p.eventually("the copy is gone", func() bool { return f.isStopped() && !a.hasHeaderBackup(id) })
			require.Contains(t, agent.HeaderBackupFaultPoints, point)
		})
	}
}

// S65: a copy that could not be removed is tried again, without anything else happening.
func TestS65_AnOlderCopyThatStaysIsRemovedLater(t *testing.T) {
	p, encryptors, id := rotatedAway(t)
	a := p.hosts[0]
	failed := make(chan struct{}, 1000)
	encryptors[0].setFail(func(effect string) error {
		if effect != "remove-backup" {
			return nil
		}
		failed <- struct{}{}
		return errors.New("input/output error")
	})
	a.start(nil)
	<-failed
	require.True(t, a.hasHeaderBackup(id))
	encryptors[0].setFail(nil)
	p.eventually("the copy is gone", func() bool { return !a.hasHeaderBackup(id) })
}

// S65: killed between the steps of replacing a copy of an earlier generation, a host never has one that counts for more than it is.
func TestS65_ACrashWhileACopyOfAnotherGenerationIsReplaced(t *testing.T) {
	p, encryptors, id := rotatedAway(t)
	a, b := p.hosts[0], p.hosts[1]
	b.unstage(id)
	b.unpublish(id)
	p.stageKeys = []executor.Passphrase{newKey}
	f := stopAt("header-backup.removed", 0)
	a.start(f)
	a.stage(id, a.publish(id))
	require.True(t, f.isStopped())
	facts, err := a.e.VolumeFacts(t.Context(), id)
	require.NoError(t, err)
	require.EqualValues(t, 1, facts.HeaderBackupGeneration)
	require.Equal(t, map[int]string{1: string(newKey.Reveal())}, encryptors[0].backups[a.headerBackup(id)].keys)
}

// S65: killed when the log had just been told that the rotation is done, the host has no copy that counts for the key
// of before; the repetition of the call leaves one of the new key.
func TestS65_ACrashAsARotationEnds(t *testing.T) {
	w, encryptor := newCryptHost(t)
	f := stopAt("key-dropped.acknowledged", 0)
	o := &orchestrator{crashHost: w, t: t, f: f}
	o.e = w.start(f)
	id, _ := w.stagedEncrypted(mountCap)
	go func() { _ = o.e.RotateKey(t.Context(), rotateTo(id, newKey, oldKey)) }()
	<-f.stopped
	require.FileExists(t, w.headerBackup(id))
	o.restartHost()
	w.eventually(func() bool { _, err := os.Stat(w.headerBackup(id)); return err != nil }, "it is not known of which key it is")
	for range 2 {
		require.NoError(t, w.e.RotateKey(t.Context(), rotateTo(id, newKey, oldKey)))
		facts, err := w.e.VolumeFacts(t.Context(), id)
		require.NoError(t, err)
		require.EqualValues(t, 1, facts.HeaderBackupGeneration)
		require.Equal(t, map[int]string{1: string(newKey.Reveal())}, encryptor.backups[w.headerBackup(id)].keys)
	}
}

// S65: a backup of before a rotation is not restored, although an operator decided that one is: it would bring a key
// back that was replaced.
func TestS65_ABackupOfAnOlderKeyIsNotRestored(t *testing.T) {
	w, f := startCryptHost(t)
	id, epoch := w.stagedEncrypted(mountCap)
	old := f.backups[w.headerBackup(id)]
	require.NoError(t, w.e.RotateKey(t.Context(), rotateTo(id, newKey, oldKey)))
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	w.stop()
	w.recordOlderBackup(id)
	f.backups[w.headerBackup(id)] = old
	f.setHeader(id, nil)
	f.setFail(failAfter("remove-backup", 0)) // it cannot be removed
	w.start(nil)
	w.restoreHeader(id)
	for range 2 {
		err := w.stageWith(id, epoch, mountCap, oldKey)
		require.Equal(t, fsm.Precondition, reasonOf(err))
		require.ErrorContains(t, err, "key generation 0, the volume's is 1")
	}
	require.Zero(t, f.count("restore"))
	require.Nil(t, f.header(id))
}

// recordOlderBackup has the record of the stopped host say that its copy of the header is of the first key.
func (w *testHost) recordOlderBackup(id fsm.VolumeID) {
	w.t.Helper()
	r, err := records.OpenRecordFile(w.dir, id)
	require.NoError(w.t, err)
	r.HeaderGeneration = 0
	require.NoError(w.t, r.Save(true))
}
