package agent_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

var (
	oldKey = rightKeys[0]
	newKey = executor.NewPassphrase("canary-passphrase-2")
)

func rotateTo(id fsm.VolumeID, to executor.Passphrase, old ...executor.Passphrase) executor.RotateRequest {
	return executor.RotateRequest{Volume: id, New: to, Old: old}
}

func (f *fakeEncryptor) keysOf(id fsm.VolumeID) map[int]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.headers[id].keys
}

// S64, S65: the key is replaced, the copy of the header as well, and a repetition finds it done.
func TestS64_AKeyIsReplaced(t *testing.T) {
	w, f := startCryptHost(t)
	id, epoch := w.stagedEncrypted(mountCap)
	for range 2 {
		require.NoError(t, w.e.RotateKey(t.Context(), rotateTo(id, newKey, oldKey)))
		require.Equal(t, map[int]string{1: string(newKey.Reveal())}, f.keysOf(id))
		v, _ := w.volume(id)
		require.Nil(t, v.Crypt.Rotation)
		require.EqualValues(t, 1, v.Crypt.KeyGeneration)
	}
	require.Equal(t, 1, f.count("add"))
	backup := f.backups[filepath.Join(w.dir, "headers", string(id)+".luks")]
	require.Equal(t, map[int]string{1: string(newKey.Reveal())}, backup.keys, "no key of before is kept")
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	require.Equal(t, fsm.Unauthenticated, reasonOf(w.stageWith(id, epoch, mountCap, oldKey)))
	require.NoError(t, w.stageWith(id, epoch, mountCap, oldKey, newKey))
}

// S64: without an old key the same one gets a slot of its own.
func TestS64_AKeyIsRenewed(t *testing.T) {
	w, f := startCryptHost(t)
	id, _ := w.stagedEncrypted(blockCap)
	for _, slot := range []int{1, 0} {
		require.NoError(t, w.e.RotateKey(t.Context(), rotateTo(id, oldKey)))
		require.Equal(t, map[int]string{slot: keyCanary}, f.keysOf(id))
	}
}

func TestS64_RotationsThatAreRefused(t *testing.T) {
	w, f := startCryptHost(t)
	id, _ := w.stagedEncrypted(mountCap)
	wrong := executor.NewPassphrase("wrong")
	for name, tc := range map[string]struct {
		req executor.RotateRequest
		why fsm.Reason
	}{
		"an unknown volume":  {rotateTo(backendtest.NewID(), newKey, oldKey), fsm.NotFound},
		"no id":              {rotateTo("x", newKey, oldKey), fsm.NotFound},
		"wrong keys":         {rotateTo(id, newKey, wrong), fsm.Unauthenticated},
		"a new key only":     {rotateTo(id, newKey), fsm.Unauthenticated},
		"another path":       {executor.RotateRequest{Volume: id, Path: "/elsewhere", New: newKey, Old: rightKeys}, fsm.NotFound},
		"another capability": {executor.RotateRequest{Volume: id, Capability: blockCap, New: newKey, Old: rightKeys}, fsm.Invalid},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.why, reasonOf(w.e.RotateKey(t.Context(), tc.req))) })
	}
	require.Equal(t, map[int]string{0: keyCanary}, f.keysOf(id))
	v, _ := w.volume(id)
	require.Nil(t, v.Crypt.Rotation, "what is refused begins nothing")
	w.encrypted = false
	clear := backendtest.NewID()
	w.create(clear, mountCap)
	require.NoError(t, w.stageAt(clear, "/other-staging"))
	require.Equal(t, fsm.Invalid, reasonOf(w.e.RotateKey(t.Context(), rotateTo(clear, newKey, oldKey))))
}

func (w *testHost) stageAt(id fsm.VolumeID, path string) error {
	req := w.stageRequest(id, w.publishVolume(id, mountCap), mountCap)
	req.Path = path
	return w.e.Stage(w.t.Context(), req)
}

// S64: a rotation to a second key that was interrupted gives way to one to a third, and neither the first
// nor the second opens the volume afterwards.
func TestS64_AThirdKeyTakesOver(t *testing.T) {
	for _, failing := range []string{"add", "try", "kill", "backup"} {
		t.Run(failing, func(t *testing.T) {
			w, f := startCryptHost(t)
			id, _ := w.stagedEncrypted(mountCap)
			f.setFail(failAfter(failing, map[string]int{"try": 2}[failing]))
			require.Error(t, w.e.RotateKey(t.Context(), rotateTo(id, newKey, oldKey)))
			f.setFail(nil)
			third := executor.NewPassphrase("third")
			require.NoError(t, w.e.RotateKey(t.Context(), rotateTo(id, third, newKey, oldKey)))
			require.Len(t, f.keysOf(id), 1)
			for _, key := range f.keysOf(id) {
				require.Equal(t, "third", key)
			}
		})
	}
}

// failAfter fails an effect from the one after so many on.
func failAfter(effect string, count int) func(string) error {
	return func(name string) error {
		if name != effect {
			return nil
		}
		if count--; count < 0 {
			return context.DeadlineExceeded
		}
		return nil
	}
}

func (f *fakeEncryptor) setFail(fail func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// S64: killed at every step, and at each repetition of it, one of the two keys opens the volume at any time, the one that the log
// says; a repetition ends it, once.
func TestS64_ACrashAtEveryPointOfARotation(t *testing.T) {
	for _, point := range agent.RotationFaultPoints {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for skip := 0; ; skip++ {
				w, encryptor := newCryptHost(t)
				f := stopAt(point, skip)
				o := &orchestrator{crashHost: w, t: t, f: f}
				o.e = w.start(f)
				id, _ := w.stagedEncrypted(mountCap)
				encryptor.setHeader(id, encryptor.header(id).with(5, "by hand")) // so that two slots are dropped
				o.retry("rotate", func(ctx context.Context, e *agent.Agent) error {
					w.requireOpens(encryptor, id)
					return e.RotateKey(ctx, rotateTo(id, newKey, oldKey))
				})
				w.requireOpens(encryptor, id)
				require.Equal(t, map[int]string{1: string(newKey.Reveal())}, encryptor.keysOf(id))
				v, _ := w.volume(id)
				require.EqualValues(t, 1, v.Crypt.KeyGeneration, "once")
				require.Nil(t, v.Crypt.Rotation)
				w.requireNewBackup(encryptor, id)
				if !f.isStopped() {
					require.Positive(t, skip, "the point was not reached")
					return
				}
				require.Less(t, skip, 10)
			}
		})
	}
}

// requireNewBackup checks that the host's copy of the header has the new key alone, and counts for that (S65).
func (w *testHost) requireNewBackup(f *fakeEncryptor, id fsm.VolumeID) {
	w.t.Helper()
	facts, err := w.e.VolumeFacts(w.t.Context(), id)
	require.NoError(w.t, err)
	require.EqualValues(w.t, 1, facts.HeaderBackupGeneration)
	require.Equal(w.t, map[int]string{1: string(newKey.Reveal())}, f.backups[w.headerBackup(id)].keys)
}

// requireOpens checks that the key opens the volume that opens it by the log.
func (w *testHost) requireOpens(f *fakeEncryptor, id fsm.VolumeID) {
	w.t.Helper()
	v, _ := w.volume(id)
	header := f.header(id)
	old, replaced := header.opens([]executor.Passphrase{oldKey}), header.opens([]executor.Passphrase{newKey})
	switch c := v.Crypt; {
	case c.KeyGeneration == 1:
		require.True(w.t, replaced)
	case c.Rotation == nil || !c.Rotation.Added:
		require.True(w.t, old, "nothing is removed before the log has that the new key was added")
	default:
		require.True(w.t, replaced, "what was added stays")
	}
}

// S64: another host takes over in the middle, and ends it there with the same keys.
func TestS64_AnotherHostEndsARotation(t *testing.T) {
	for _, failing := range []string{"add", "kill", "backup"} {
		t.Run(failing, func(t *testing.T) {
			p, encryptors := newCryptPair(t)
			id := p.create(fsmpb.Protocol_PROTOCOL_C)
			a, b := p.hosts[0], p.hosts[1]
			a.stage(id, a.publish(id))
			encryptors[0].setFail(failAfter(failing, 0))
			require.Error(t, a.e.RotateKey(t.Context(), rotateTo(id, newKey, oldKey)))
			encryptors[0].setFail(nil)
			a.unstage(id)
			a.unpublish(id)
			p.stageKeys = []executor.Passphrase{newKey}
			b.stage(id, b.publish(id))
			require.NoError(t, b.e.RotateKey(t.Context(), rotateTo(id, newKey, oldKey)))
			require.Equal(t, map[int]string{1: string(newKey.Reveal())}, encryptors[1].keysOf(id))
			require.EqualValues(t, 1, p.volume(id).Crypt.KeyGeneration)
			b.unstage(id)
			b.unpublish(id)
			p.remove(id)
		})
	}
}

// S65: a rotation that was done before the log said so, as by hand or in what a restore lost, leaves no copy of the header with a key of before.
func TestS65_TheCopyOfAHeaderThatWasRotatedBeforeIsReplaced(t *testing.T) {
	w, f := startCryptHost(t)
	id, _ := w.stagedEncrypted(mountCap)
	f.setHeader(id, f.header(id).with(0, string(newKey.Reveal())))
	require.NoError(t, w.e.RotateKey(t.Context(), rotateTo(id, newKey, oldKey)))
	backup := f.backups[filepath.Join(w.dir, "headers", string(id)+".luks")]
	require.Equal(t, map[int]string{0: string(newKey.Reveal())}, backup.keys)
}

// S65: a host whose copy of the header is of before a rotation at the other host replaces it when it stages the volume again.
func TestS65_AHostReplacesACopyOfAnOlderHeader(t *testing.T) {
	p, encryptors := newCryptPair(t)
	id := p.create(fsmpb.Protocol_PROTOCOL_C)
	a, b := p.hosts[0], p.hosts[1]
	file := filepath.Join(a.dir, "headers", string(id)+".luks")
	a.stage(id, a.publish(id))
	require.Equal(t, map[int]string{0: keyCanary}, encryptors[0].backups[file].keys)
	a.unstage(id)
	a.unpublish(id)
	b.stage(id, b.publish(id))
	require.NoError(t, b.e.RotateKey(t.Context(), rotateTo(id, newKey, oldKey)))
	b.unstage(id)
	b.unpublish(id)
	p.stageKeys = []executor.Passphrase{newKey}
	a.stage(id, a.publish(id))
	require.Equal(t, map[int]string{1: string(newKey.Reveal())}, encryptors[0].backups[file].keys, "an operator restores what the copy has")
}
