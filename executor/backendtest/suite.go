// Package backendtest is one test suite for every backend: what the executor relies on, as tests.
// It also has a backend and a replicator in memory for the executor's own tests, and a World of
// whole hosts, in which a driver decides what happens; the suite runs on both, too.
//
//	suite*.go       what every backend must do
//	fake_*.go       a pool and two hosts' DRBD that go on by themselves, with time
//	world.go        several hosts, and what must never happen on them
//	world_gate.go   the boundaries of effects; world_process.go asks at them
//	world_host.go   a host: what survives a reboot, and what does not
//	world_pool*.go  pools with a cache; world_device.go reads and writes what lies on them
//	world_filesystem*.go, world_mount_tools.go  filesystems, mounts, freezes, limits
//	world_resource*.go, world_replicator.go, world_handler.go  DRBD by drbdmodel
//	world_events.go  what kernels and disks do by themselves, when the driver says so
//	world_writer.go, world_stamps.go, world_ledger.go  users, and what they were told
//	world_audit.go  what a host has of volumes
package backendtest

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// VolumeBytes is the size of the volumes that the suite creates, in bytes.
const VolumeBytes = 16 << 20

// Harness is a backend on a new empty pool, with functions that damage it.
type Harness struct {
	// Backend is the backend under test.
	Backend executor.Backend
	// Reopen opens the pool again, as a restarted process does.
	Reopen func() executor.Backend
	// InterruptCreate leaves what a crash during Create leaves.
	InterruptCreate func(t *testing.T, id fsm.VolumeID)
	// SetAbsent makes the pool absent, as an unmount does, or present again.
	SetAbsent func(t *testing.T, absent bool)
	// RequireUntouched fails the test when anything was created where an absent pool would be.
	RequireUntouched func(t *testing.T)
}

// NewID returns a new, random volume id.
func NewID() fsm.VolumeID { return fsm.VolumeIDFrom(uuid.New()) }

// RunBackendSuite runs the suite on the backends that start returns, each test on a pool of its
// own.
func RunBackendSuite(t *testing.T, start func(t *testing.T) Harness) {
	for name, test := range map[string]func(*testing.T, Harness){
		"creating an image twice creates it once":                      testCreate,
		"an image of another size is not adopted":                      testOtherSize,
		"a restarted process finds the images":                         testReopen,
		"an image has one device, also after a restart":                testActivate,
		"a device becomes read-only and writable as asked":             testReadOnly,
		"an active image is not removed":                               testRemoveActive,
		"removing a missing image succeeds":                            testRemoveNothing,
		"an image that a crash left unfinished is replaced or removed": testInterrupted,
		"there is no device without an image":                          testActivateNothing,
		"the inventory lists images and devices":                       testInventory,
		"TestS12 in an absent pool nothing is created or removed":      testAbsent,
		"devices of an absent pool can be deactivated":                 testAbsentDeactivate,
		"an invalid id never becomes a path":                           testBadID,
	} {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

func observe(t *testing.T, b executor.Backend, id fsm.VolumeID) executor.Device {
	t.Helper()
	d, err := b.Observe(t.Context(), id)
	require.NoError(t, err)
	return d
}

func reason(err error) fsm.Reason {
	var rej *fsm.Rejection
	if errors.As(err, &rej) {
		return rej.Reason
	}
	return 0
}

func testCreate(t *testing.T, h Harness) {
	id := NewID()
	require.False(t, observe(t, h.Backend, id).Exists)
	for range 2 {
		require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes))
		d := observe(t, h.Backend, id)
		require.True(t, d.Exists)
		require.False(t, d.Unfinished)
		require.False(t, d.Active())
		require.EqualValues(t, VolumeBytes, d.Size)
	}
}

func testOtherSize(t *testing.T, h Harness) {
	id := NewID()
	require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes))
	for range 2 {
		require.Equal(t, fsm.Incompatible, reason(h.Backend.Create(t.Context(), id, 2*VolumeBytes)))
		require.EqualValues(t, VolumeBytes, observe(t, h.Backend, id).Size)
	}
}

func testReopen(t *testing.T, h Harness) {
	id := NewID()
	require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes))
	again := h.Reopen()
	require.Equal(t, h.Backend.ID(), again.ID())
	require.True(t, observe(t, again, id).Exists)
}

func testActivate(t *testing.T, h Harness) {
	id := NewID()
	require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes))
	first, err := h.Backend.Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.True(t, first.Active())
	require.False(t, first.ReadOnly)
	for _, b := range []executor.Backend{h.Backend, h.Reopen()} {
		again, err := b.Activate(t.Context(), id, false)
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.Equal(t, first, observe(t, b, id))
	}
	for range 2 {
		require.NoError(t, h.Reopen().Deactivate(t.Context(), id))
		require.False(t, observe(t, h.Backend, id).Active())
	}
}

func testReadOnly(t *testing.T, h Harness) {
	id := NewID()
	require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes))
	for _, readOnly := range []bool{true, false, true, true, false} {
		d, err := h.Backend.Activate(t.Context(), id, readOnly)
		require.NoError(t, err)
		require.Equal(t, readOnly, d.ReadOnly)
	}
	require.NoError(t, h.Backend.Deactivate(t.Context(), id))
}

func testRemoveActive(t *testing.T, h Harness) {
	id := NewID()
	require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes))
	_, err := h.Backend.Activate(t.Context(), id, false)
	require.NoError(t, err)
	for _, b := range []executor.Backend{h.Backend, h.Reopen()} {
		require.Equal(t, fsm.InUse, reason(b.Remove(t.Context(), id)))
		require.True(t, observe(t, b, id).Exists)
	}
	require.NoError(t, h.Backend.Deactivate(t.Context(), id))
	require.NoError(t, h.Backend.Remove(t.Context(), id))
	require.False(t, observe(t, h.Backend, id).Exists)
}

func testRemoveNothing(t *testing.T, h Harness) {
	for range 2 {
		require.NoError(t, h.Backend.Remove(t.Context(), NewID()))
		require.NoError(t, h.Backend.Deactivate(t.Context(), NewID()))
	}
}

func testInterrupted(t *testing.T, h Harness) {
	id, never := NewID(), NewID()
	h.InterruptCreate(t, id)
	h.InterruptCreate(t, never)
	d := observe(t, h.Backend, id)
	require.True(t, d.Unfinished)
	require.False(t, d.Exists, "an unfinished image does not exist")
	require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes))
	require.False(t, observe(t, h.Backend, id).Unfinished)
	require.NoError(t, h.Backend.Remove(t.Context(), never))
	require.False(t, observe(t, h.Backend, never).Unfinished)
}

func testActivateNothing(t *testing.T, h Harness) {
	_, err := h.Backend.Activate(t.Context(), NewID(), false)
	require.Equal(t, fsm.Precondition, reason(err))
}

func testInventory(t *testing.T, h Harness) {
	made, attached, unfinished := NewID(), NewID(), NewID()
	h.InterruptCreate(t, unfinished)
	for _, id := range []fsm.VolumeID{made, attached} {
		require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes))
	}
	_, err := h.Backend.Activate(t.Context(), attached, false)
	require.NoError(t, err)
	items, err := h.Reopen().Inventory(t.Context())
	require.NoError(t, err)
	found := map[string][]fsm.VolumeID{}
	for _, item := range items {
		require.NotEmpty(t, item.Path)
		found[item.Kind] = append(found[item.Kind], item.Volume)
	}
	require.ElementsMatch(t, []fsm.VolumeID{made, attached}, found["image"])
	require.ElementsMatch(t, []fsm.VolumeID{attached}, found["loop"])
	require.ElementsMatch(t, []fsm.VolumeID{unfinished}, found["unfinished"])
	require.NoError(t, h.Backend.Deactivate(t.Context(), attached))
}

func testAbsent(t *testing.T, h Harness) {
	made, wanted := NewID(), NewID()
	require.NoError(t, h.Backend.Create(t.Context(), made, VolumeBytes))
	facts := h.Backend.Facts(t.Context())
	require.False(t, facts.Absent)
	require.Positive(t, facts.Free)
	require.GreaterOrEqual(t, facts.Capacity, facts.Free)
	h.SetAbsent(t, true)
	for _, b := range []executor.Backend{h.Backend, h.Reopen()} {
		require.True(t, b.Facts(t.Context()).Absent)
		require.Equal(t, h.Backend.ID(), b.ID())
		require.True(t, observe(t, b, made).Absent)
		require.Error(t, b.Create(t.Context(), wanted, VolumeBytes))
		require.Error(t, b.Remove(t.Context(), made))
		_, err := b.Activate(t.Context(), made, false)
		require.Error(t, err)
		_, err = b.Inventory(t.Context())
		require.Error(t, err)
	}
	h.RequireUntouched(t)
	h.SetAbsent(t, false)
	require.True(t, observe(t, h.Backend, made).Exists)
	require.False(t, observe(t, h.Backend, wanted).Exists)
	require.False(t, h.Backend.Facts(t.Context()).Absent)
}

func testAbsentDeactivate(t *testing.T, h Harness) {
	id := NewID()
	require.NoError(t, h.Backend.Create(t.Context(), id, VolumeBytes))
	_, err := h.Backend.Activate(t.Context(), id, false)
	require.NoError(t, err)
	h.SetAbsent(t, true)
	require.True(t, observe(t, h.Backend, id).Active())
	require.NoError(t, h.Backend.Deactivate(t.Context(), id))
	require.False(t, observe(t, h.Backend, id).Active())
	h.SetAbsent(t, false)
}

func testBadID(t *testing.T, h Harness) {
	for _, id := range []fsm.VolumeID{"", "..", "../../etc/passwd", "hf-x", NewID() + "/..", "hs-" + NewID()[3:]} {
		_, err := h.Backend.Observe(t.Context(), id)
		require.Equal(t, fsm.NotFound, reason(err))
		require.Equal(t, fsm.NotFound, reason(h.Backend.Create(t.Context(), id, VolumeBytes)))
		require.Equal(t, fsm.NotFound, reason(h.Backend.Remove(t.Context(), id)))
		require.Equal(t, fsm.NotFound, reason(h.Backend.Deactivate(t.Context(), id)))
		_, err = h.Backend.Activate(t.Context(), id, false)
		require.Equal(t, fsm.NotFound, reason(err))
	}
}
