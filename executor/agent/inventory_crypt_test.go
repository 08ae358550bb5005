package agent_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// itemsOf is the inventory's items of these kinds.
func itemsOf(t *testing.T, e *agent.Agent, kinds ...string) (all []executor.InventoryItem) {
	t.Helper()
	found, err := e.Inventory(t.Context())
	require.NoError(t, err)
	require.True(t, found.Encryption)
	for _, item := range found.Items {
		if slices.Contains(kinds, item.Kind) {
			all = append(all, item)
		}
	}
	return all
}

func kindsOf(items []executor.InventoryItem) (kinds []string) {
	for _, item := range items {
		kinds = append(kinds, item.Kind)
	}
	return kinds
}

// TestAnInventoryListsMappingsAndHeaders checks an encrypted volume while it is staged, after that, and when its
// header is lost.
func TestAnInventoryListsMappingsAndHeaders(t *testing.T) {
	w, f := startCryptHost(t)
	id, _ := w.stagedEncrypted(mountCap)
	uuid := f.header(id).uuid
	image := executor.InventoryItem{Kind: executor.KindImage, Volume: id, Path: "/fake/volumes/" + string(id), HeaderRead: true, HeaderUUID: uuid}
	mapping := executor.InventoryItem{Kind: executor.KindMapping, Volume: id, Path: fakeMappingPrefix + string(id), HeaderRead: true, HeaderUUID: uuid}
	backup := executor.InventoryItem{Kind: executor.KindHeaderBackup, Volume: id, Path: w.headerBackup(id), HeaderRead: true, HeaderUUID: uuid}
	all := []string{executor.KindImage, executor.KindMapping, executor.KindHeaderBackup}
	for range 2 {
		require.ElementsMatch(t, []executor.InventoryItem{image, mapping, backup}, itemsOf(t, w.e, all...))
	}
	require.NoError(t, w.e.Unstage(t.Context(), id, stagingPath))
	require.ElementsMatch(t, []executor.InventoryItem{image, backup}, itemsOf(t, w.e, all...), "nothing is opened for it")
	f.setHeader(id, nil)
	image.HeaderUUID = ""
	require.ElementsMatch(t, []executor.InventoryItem{image, backup}, itemsOf(t, w.e, all...))
	f.unreadable, image.HeaderRead = true, false
	require.ElementsMatch(t, []executor.InventoryItem{image, backup}, itemsOf(t, w.e, all...), "what cannot be read is not known")
}

// TestAnInventoryTellsAMappingAboveAnotherDevice checks which device below a mapping is the volume's.
func TestAnInventoryTellsAMappingAboveAnotherDevice(t *testing.T) {
	w, f := startCryptHost(t)
	id, _ := w.stagedEncrypted(mountCap)
	for below, want := range map[executor.Device]string{
		f.belows[id]:                             "",
		{}:                                       "", // not known
		{Path: "/dev/fake900", Number: 900 << 8}: "/dev/fake900",
	} {
		f.mu.Lock()
		f.belows[id] = below
		f.mu.Unlock()
		require.Equal(t, want, itemsOf(t, w.e, executor.KindMapping)[0].WrongDevice)
	}
	stranger := backendtest.NewID()
	f.mu.Lock()
	f.mappings[stranger], f.belows[stranger] = executor.Device{Exists: true, Path: "/x"}, executor.Device{Path: "/dev/fake1", Number: 1}
	f.mu.Unlock()
	require.Contains(t, itemsOf(t, w.e, executor.KindMapping), executor.InventoryItem{Kind: executor.KindMapping, Volume: stranger, Path: "/x"},
		"of a volume that is not on this host, no device is its own")
}

// TestAnInventoryListsEveryFileBesideTheHeaders checks copies that belong to no volume, and one that is not complete.
func TestAnInventoryListsEveryFileBesideTheHeaders(t *testing.T) {
	w, _ := startCryptHost(t)
	require.Empty(t, itemsOf(t, w.e, executor.KindHeaderBackup), "there is no directory yet")
	id, _ := w.stagedEncrypted(mountCap)
	stranger, dir := backendtest.NewID(), filepath.Dir(w.headerBackup(id))
	for _, name := range []string{string(stranger) + ".luks", "x", string(id) + ".luks.new"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	want := map[string]fsm.VolumeID{
		"header_backup " + string(id) + ".luks": id, "header_backup " + string(stranger) + ".luks": stranger, "header_backup x": "",
		"unfinished " + string(id) + ".luks.new": id,
	}
	w.eventually(func() bool { // what is left of a backup is listed when no work on the volume is under way
		paths := map[string]fsm.VolumeID{}
		for _, item := range itemsOf(t, w.e, executor.KindHeaderBackup, executor.KindUnfinished) {
			paths[item.Kind+" "+filepath.Base(item.Path)] = item.Volume
		}
		return maps.Equal(want, paths)
	}, "all files are listed, each once")
}

// TestAnInventoryLeavesOutACopyThatMayBeWrittenNow checks it while the volume is staged.
func TestAnInventoryLeavesOutACopyThatMayBeWrittenNow(t *testing.T) {
	w, _ := startCryptHost(t)
	var during executor.Inventory
	failure := errors.New("nothing was mounted")
	w.mounter.setFail(func(effect, _ string) error {
		if effect != "mount" || during.Encryption {
			return nil
		}
		files, _ := filepath.Glob(filepath.Join(w.dir, "headers", "*.luks"))
		for _, file := range files {
			failure = os.WriteFile(file+".new", nil, 0o600)
		}
		if failure == nil {
			during, failure = w.e.Inventory(t.Context())
		}
		return nil
	})
	w.stagedEncrypted(mountCap)
	w.mounter.setFail(nil)
	require.NoError(t, failure)
	require.NotContains(t, kindsOf(during.Items), executor.KindUnfinished)
	w.eventually(func() bool { return len(itemsOf(t, w.e, executor.KindUnfinished)) == 1 }, "it is listed when nothing writes it any more")
}

// TestAnInventoryOfReplicasKnowsTheDeviceOfTheMapping checks that the device below is DRBD's, and that both replicas
// have the header.
func TestAnInventoryOfReplicasKnowsTheDeviceOfTheMapping(t *testing.T) {
	p, encryptors := newCryptPair(t)
	id := p.create(fsmpb.Protocol_PROTOCOL_C)
	a, b := p.hosts[0], p.hosts[1]
	a.stage(id, a.publish(id))
	require.Empty(t, itemsOf(t, a.e, executor.KindMapping)[0].WrongDevice)
	require.Empty(t, itemsOf(t, b.e, executor.KindMapping))
	for _, m := range p.hosts {
		require.Equal(t, encryptors[0].header(id).uuid, itemsOf(t, m.e, executor.KindImage)[0].HeaderUUID)
	}
	backing, err := a.pool.Observe(t.Context(), id)
	require.NoError(t, err)
	encryptors[0].mu.Lock()
	encryptors[0].belows[id] = executor.Device{Path: backing.Path, Number: backing.Number}
	encryptors[0].mu.Unlock()
	require.Equal(t, backing.Path, itemsOf(t, a.e, executor.KindMapping)[0].WrongDevice, "it would go past DRBD")
}

// TestAHostWithoutEncryptionListsNoMappings checks that nothing is said about them.
func TestAHostWithoutEncryptionListsNoMappings(t *testing.T) {
	w := newTestHost(t)
	found, err := w.e.Inventory(t.Context())
	require.NoError(t, err)
	require.False(t, found.Encryption)
}
