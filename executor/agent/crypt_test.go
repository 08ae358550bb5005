package agent_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const keyCanary = "canary-passphrase"

var rightKeys = []executor.Passphrase{executor.NewPassphrase(keyCanary)}

// newCryptHost is a host whose volumes are encrypted, stopped.
func newCryptHost(t testing.TB) (*testHost, *fakeEncryptor) {
	w := newStoppedHost(t)
	w.encrypted = true
	f := newFakeEncryptor(w.pool)
	w.configure = func(c *agent.Config) { c.Encryptor = f }
	return w, f
}

func startCryptHost(t testing.TB) (*testHost, *fakeEncryptor) {
	w, f := newCryptHost(t)
	w.start(nil)
	return w, f
}

func (w *testHost) stageWith(id fsm.VolumeID, epoch fsm.Epoch, capability fsm.Capability, keys ...executor.Passphrase) error {
	req := w.stageRequest(id, epoch, capability)
	req.Keys = keys
	return w.e.Stage(w.t.Context(), req)
}

// stagedEncrypted is an encrypted volume that is created, published and staged.
func (w *testHost) stagedEncrypted(capability fsm.Capability) (fsm.VolumeID, fsm.Epoch) {
	w.t.Helper()
	id := backendtest.NewID()
	w.create(id, capability)
	epoch := w.publishVolume(id, capability)
	require.NoError(w.t, w.stageWith(id, epoch, capability, rightKeys...))
	return id, epoch
}

func TestEncryptedVolumeLifecycle(t *testing.T) {
	for name, capability := range map[string]fsm.Capability{"a filesystem": mountCap, "a raw device": blockCap} {
		t.Run(name, func(t *testing.T) {
			w, f := startCryptHost(t)
			id, epoch := w.stagedEncrypted(capability)
			image, err := w.pool.Observe(t.Context(), id)
			require.NoError(t, err)
			require.EqualValues(t, testSize+executor.LUKSHeaderBytes, image.Size)
			require.NoError(t, w.stageWith(id, epoch, capability, rightKeys...))
			require.NoError(t, w.e.PublishTarget(t.Context(), w.publishRequest(id, epoch, capability)))
			stats, err := w.e.VolumeStats(t.Context(), id, targetPath)
			require.NoError(t, err)
			require.EqualValues(t, testSize, stats.Bytes.Total)
			require.Equal(t, 1, f.open())
			w.restart() // what is open is adopted
			require.NoError(t, w.e.UnpublishTarget(t.Context(), id, targetPath))
			for range 2 {
				require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
			}
			require.Zero(t, f.open(), "the mapping is closed")
			require.Zero(t, w.pool.ActiveDevices())
			require.NoError(t, w.stageWith(id, epoch, capability, rightKeys...))
			require.Equal(t, 1, f.count("format"), "S62: the header is made once")
			require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
			require.NoError(t, w.unpublishVolume(id))
			require.NoError(t, w.deleteVolume(id))
			w.eventually(func() bool { _, known := w.volume(id); return !known }, "the host reported it gone")
			require.Nil(t, f.header(id), "S65: its header is wiped")
			w.requireNothingLeft()
		})
	}
}

func TestS62_AHeaderThatTheLogKnowsIsNeverMadeAgain(t *testing.T) {
	for name, lost := range map[string]*fakeHeader{
		"it is gone":             nil,
		"its slots are gone":     {uuid: "same"},
		"another one is instead": {uuid: "11111111-2222-4333-8444-555555555555", keys: map[int]string{0: keyCanary}},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := newCryptHost(t)
			w.health = 10 * time.Millisecond
			w.start(nil)
			id, epoch := w.stagedEncrypted(mountCap)
			require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
			original := f.header(id)
			if lost != nil && lost.uuid == "same" {
				lost.uuid = f.header(id).uuid
			}
			f.setHeader(id, lost)
			for range 2 {
				require.Equal(t, fsm.Precondition, reasonOf(w.stageWith(id, epoch, mountCap, rightKeys...)))
			}
			require.Equal(t, 1, f.count("format"))
			require.Equal(t, 1, w.mounter.count("mkfs"))
			if lost == nil || len(lost.keys) == 0 {
				w.eventually(func() bool { v, _ := w.volume(id); return strings.Contains(v.Condition.Message, "header") }, "it is the volume's condition")
			}
			f.setHeader(id, original)
			require.NoError(t, w.stageWith(id, epoch, mountCap, rightKeys...), "restored, it opens")
			w.eventually(func() bool { v, _ := w.volume(id); return !v.Condition.Abnormal }, "and the condition ends")
		})
	}
}

func TestS62_NoHeaderIsMadeOverWhatIsNotEmpty(t *testing.T) {
	w, f := startCryptHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	epoch := w.publishVolume(id, mountCap)
	f.garbage[id] = true
	require.Equal(t, fsm.Precondition, reasonOf(w.stageWith(id, epoch, mountCap, rightKeys...)))
	require.Zero(t, f.count("format"))
}

func TestPassphrasesOfAStage(t *testing.T) {
	w, f := startCryptHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	epoch := w.publishVolume(id, mountCap)
	wrong := executor.NewPassphrase("wrong")
	for _, keys := range [][]executor.Passphrase{nil, {{}}, {{}, wrong}} {
		require.Equal(t, fsm.Invalid, reasonOf(w.stageWith(id, epoch, mountCap, keys...)))
	}
	require.Nil(t, w.publication(id).Staging, "S73: what was refused left no intent")
	require.NoError(t, w.stageWith(id, epoch, mountCap, rightKeys...))
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	require.Equal(t, fsm.Unauthenticated, reasonOf(w.stageWith(id, epoch, mountCap, wrong)))
	require.Zero(t, f.open())
	require.NoError(t, w.stageWith(id, epoch, mountCap, wrong, rightKeys[0]), "S64: the one before opens it too")
}

func TestAnEncryptedVolumeGrowsWithItsPassphrase(t *testing.T) {
	w, f := startCryptHost(t)
	id, epoch := w.stagedEncrypted(mountCap)
	w.expandVolume(id, 2*testSize)
	w.eventually(func() bool { v, _ := w.volume(id); return v.Operation == nil }, "its device has grown")
	request := executor.ExpandRequest{Volume: id, Path: stagingPath, Size: 2 * testSize}
	_, err := w.e.Expand(t.Context(), request)
	require.Equal(t, fsm.Precondition, reasonOf(err), "without a passphrase")
	request.Keys = rightKeys
	for range 2 {
		size, err := w.e.Expand(t.Context(), request)
		require.NoError(t, err)
		require.EqualValues(t, 2*testSize, size)
	}
	require.Equal(t, 1, f.count("resize"))
	w.expandVolume(id, 3*testSize)
	w.eventually(func() bool { v, _ := w.volume(id); return v.Operation == nil }, "its device has grown again")
	require.NoError(t, w.stageWith(id, epoch, mountCap, rightKeys...), "staging it again grows it as well")
	require.Equal(t, 2, f.count("resize"))
}

// Killed between every two steps, a header is never made twice once the log knows it, and nothing leaks.
func TestS62_ACrashAtEveryPointOfEncryption(t *testing.T) {
	for _, point := range agent.CryptFaultPoints {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			for _, capability := range []fsm.Capability{mountCap, blockCap} {
				w, encryptor := newCryptHost(t)
				w.discards = true // its space is reclaimed as that of one in clear
				f := stopAt(point, 0)
				o := &orchestrator{crashHost: w, t: t, f: f}
				o.e = w.start(f)
				o.volumeLife(capability)
				require.LessOrEqual(t, encryptor.count("format"), 2)
				require.Zero(t, encryptor.open())
			}
		})
	}
}

// Every point is passed in an encrypted volume's whole life, or when it grows or is a clone.
func TestEveryFaultPointOfEncryptionIsHit(t *testing.T) {
	w, _ := newCryptHost(t)
	w.discards = true
	f := stopAt("", 0)
	o := &orchestrator{crashHost: w, t: t, f: f}
	o.e = w.start(f)
	o.volumeLife(mountCap)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, point := range agent.CryptFaultPoints {
		if !strings.HasPrefix(point, "luks-resize.") && !strings.HasPrefix(point, "luks-uuid.") && !strings.HasPrefix(point, "luks-restore.") {
			require.True(t, f.hits[point], point)
		}
	}
}

// S63: no key is in what the host writes, logs, proposes or answers.
func TestS63_NoPassphraseLeavesTheHost(t *testing.T) {
	var logs bytes.Buffer
	w, f := newCryptHost(t)
	withEncryptor := w.configure
	w.configure = func(c *agent.Config) {
		withEncryptor(c)
		c.Logger = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	w.start(nil)
	id, epoch := w.stagedEncrypted(mountCap)
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	wrong := executor.NewPassphrase(keyCanary + "-wrong")
	err := w.stageWith(id, epoch, mountCap, wrong)
	require.Error(t, err)
	require.NotContains(t, err.Error(), keyCanary)
	f.setHeader(id, nil)
	err = w.stageWith(id, epoch, mountCap, rightKeys...)
	require.Error(t, err)
	require.NotContains(t, err.Error(), keyCanary)
	w.stop()
	require.NotContains(t, logs.String(), keyCanary)
	w.mu.Lock() // a report may be on its way still
	commands := slices.Clone(w.commands)
	w.mu.Unlock()
	for _, cmd := range commands {
		require.NotContains(t, cmd.String(), keyCanary)
	}
	require.NoError(t, filepath.Walk(w.dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		require.NotContains(t, strings.ToLower(string(content)), keyCanary, path)
		return err
	}))
}

func TestAVolumeInClearIsAsBefore(t *testing.T) {
	w, f := startCryptHost(t)
	w.encrypted = false
	id, _ := w.staged(mountCap)
	image, err := w.pool.Observe(t.Context(), id)
	require.NoError(t, err)
	require.EqualValues(t, testSize, image.Size)
	require.Empty(t, f.effects)
	v, _ := w.volume(id)
	require.Nil(t, v.Crypt)
}

func TestCleanClosesMappings(t *testing.T) {
	w, f := startCryptHost(t)
	w.stagedEncrypted(mountCap)
	w.stop()
	w.build(nil, nil)
	require.NoError(t, w.e.Clean(t.Context()))
	require.Zero(t, f.open())
	require.Zero(t, w.pool.ActiveDevices())
}

func TestACloneOfAnEncryptedVolumeGetsItsOwnHeaderUUID(t *testing.T) {
	w, f := startCryptHost(t)
	source, _ := w.stagedEncrypted(mountCap)
	require.NoError(t, w.e.Unstage(t.Context(), source, stagingPath))
	require.NoError(t, w.unpublishVolume(source))
	id := backendtest.NewID()
	w.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: string(id), Name: "clone", RequiredBytes: testSize, Encrypted: true,
		Capabilities: []*fsmpb.Capability{proto(mountCap)}, Source: &fsmpb.Source{VolumeId: string(source)},
	}}})
	w.eventually(func() bool { return w.isReady(id) }, "the clone is ready")
	original := *f.header(source)
	f.setHeader(id, &fakeHeader{uuid: original.uuid, keys: original.keys})
	w.mounter.copyContent(source, id)
	epoch := w.publishVolume(id, mountCap)
	require.NoError(t, w.stageWith(id, epoch, mountCap, rightKeys...))
	v, _ := w.volume(id)
	require.Equal(t, v.Crypt.UUID, f.header(id).uuid)
	require.NotEqual(t, original.uuid, f.header(id).uuid)
	require.Equal(t, 1, f.count("format"), "only the source's")
}
