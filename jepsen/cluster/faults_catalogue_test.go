package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/faultfs"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/faults"
)

// verified are the checks of TestFaults; report.Run.Judge is the last.
var verified = []catalog.Check{
	catalog.Linearizable, catalog.CheckerEnded, catalog.NoStaleRead, catalog.Acknowledged, catalog.ReplayEqual, catalog.LogsEqual, catalog.HashesEqual,
	catalog.Audit, catalog.NoDuplicate, catalog.NoLeak, catalog.NoSecret, catalog.ServesAgain, catalog.NothingWasEmpty,
}

// TestTheCatalogueIsServed compares what TestFaults chooses from, and what the tests of isolated do beside it, with the catalogue.
func TestTheCatalogueIsServed(t *testing.T) {
	has := catalog.ServedBy(catalog.Cluster)
	has.Faults = []catalog.Fault{catalog.BackupRestore} // isolated's tests do it: it takes back what was acknowledged
	for _, one := range chosen(1, (&faultyDisks{}).injectors(), true) {
		has.Faults = append(has.Faults, one.Fault)
	}
	has.Checks = verified
	require.Empty(t, catalog.Differences(catalog.Cluster, has))
}

func TestAShortRunHasTheDisksFaultsAndSnapshots(t *testing.T) {
	disks := (&faultyDisks{byID: map[string]*faultfs.FS{}}).injectors()
	var all []catalog.Fault
	for seed := range uint64(50) {
		some := names(chosen(seed, disks, false))
		require.Subset(t, some, append(names(disks), catalog.SnapshotStorm))
		all = append(all, some...)
	}
	require.Subset(t, all, names(faults.All()), "some seed chooses each")
	require.Equal(t, names(chosen(3, disks, false)), names(chosen(3, disks, false)))
}

func names(of []faults.Injector) (names []catalog.Fault) {
	for _, one := range of {
		names = append(names, one.Fault)
	}
	return names
}
