package scenarios

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
)

// disturbance is a fault, or work that is done to the volumes besides writing.
type disturbance struct {
	name     string
	fault    catalog.Fault
	workload catalog.Workload // of one that is no fault
	// group: of each there is at most one in a round, so that the effect of each can be seen.
	group group
	// order: lower ones begin earlier.
	order int
	// inShort: it takes no minutes to end.
	inShort bool
	// begin returns when it has its effect, and answers where, and what ends it, nil when it ended.
	begin func(*randomRun) (where string, end func())
}

// group is what a disturbance acts on.
type group string

const (
	links     group = "links"     // the replication network
	control   group = "control"   // the network of the controllers
	disks     group = "disks"     // what is below the replicas
	processes group = "processes" // of Holdfast
	machines  group = "machines"  // whole hosts
	work      group = "work"      // of an orchestrator or an operator
)

// excludes tells whether both cannot be in one round.
func (d *disturbance) excludes(other *disturbance) bool {
	return d.group == other.group ||
		// Not covered (executor/drbd/DESIGN.md): both hosts lose power before the failure of a disk is reported.
		d.name == powerOfBoth && other.group == disks || other.name == powerOfBoth && d.group == disks
}

const powerOfBoth = "power loss of both hosts of a volume"

// disturbances are all there are.
func disturbances() []*disturbance {
	return []*disturbance{
		{name: "replication cut", fault: catalog.ReplicationCut, group: links, inShort: true, begin: (*randomRun).cutReplication},
		{name: "replication cut one way", fault: catalog.PartitionOneWay, group: links, inShort: true, begin: (*randomRun).cutOneWay},
		{name: "replication flaps", fault: catalog.NetworkFlapping, group: links, inShort: true, begin: (*randomRun).flap},
		{name: "resync interrupted", fault: catalog.ResyncInterrupted, group: links, begin: (*randomRun).interruptResync},
		{name: "a host is alone", fault: catalog.BothNetworksCut, group: links, inShort: true, begin: (*randomRun).cutBoth},
		{name: "a host without controllers", fault: catalog.ManagementCut, group: control, order: 1, inShort: true, begin: (*randomRun).cutControl},
		{name: "the leader is alone", fault: catalog.PartitionLeader, group: control, order: 1, inShort: true, begin: (*randomRun).cutLeader},
		{name: "writes fail", fault: catalog.WriteError, group: disks, inShort: true, begin: (*randomRun).failWrites},
		{name: "a replica's disk fails", fault: catalog.ReplicaDisk, group: disks, inShort: true, begin: (*randomRun).failReplicaDisk},
		{name: "a slow disk", fault: catalog.DiskSlow, group: disks, inShort: true, begin: (*randomRun).slowDisk},
		{name: "a hung disk", fault: catalog.DiskHung, group: disks, inShort: true, begin: (*randomRun).hangDisk},
		{name: "a pool without room for data", fault: catalog.PoolDataFull, group: disks, begin: (*randomRun).fillPool},
		{name: "a pool without room for metadata", fault: catalog.PoolMetaFull, group: disks, begin: (*randomRun).fillPoolMetadata},
		{name: "a node killed", fault: catalog.Kill, group: processes, order: 2, inShort: true, begin: (*randomRun).killNode},
		{name: "a controller killed", fault: catalog.LeaderChange, group: processes, order: 2, inShort: true, begin: (*randomRun).killLeader},
		{name: "all processes killed", fault: catalog.KillAll, group: processes, order: 2, inShort: true, begin: (*randomRun).killAll},
		{name: "a node paused", fault: catalog.Pause, group: processes, order: 2, inShort: true, begin: (*randomRun).pauseNode},
		{name: "a controller paused", fault: catalog.Pause, group: processes, order: 2, inShort: true, begin: (*randomRun).pauseController},
		{name: "a guest paused", fault: catalog.Pause, group: machines, order: 3, begin: (*randomRun).pauseGuest},
		{name: "a host rebooted", fault: catalog.HostReboot, group: machines, order: 3, begin: (*randomRun).reboot},
		{name: "power loss of a volume's host", fault: catalog.PowerLoss, group: machines, order: 3, begin: (*randomRun).losePower},
		{name: powerOfBoth, fault: catalog.PowerLoss, group: machines, order: 3, begin: (*randomRun).losePowerOfBoth},
		{name: "power loss of a controller", fault: catalog.PowerLoss, group: machines, order: 3, begin: (*randomRun).losePowerOfLeader},
		{name: "a move", workload: catalog.Publish, group: work, order: 2, begin: (*randomRun).move},
		{name: "a snapshot", workload: catalog.Snapshot, group: work, begin: (*randomRun).snapshot},
		{name: "growth", workload: catalog.Expand, group: work, begin: (*randomRun).grow},
		{name: "a replica replaced", workload: catalog.Replace, group: work, begin: (*randomRun).replace},
	}
}

// The catalogue lists for this layer what TestRandomFaults has, to the name.
func TestTheCatalogueListsWhatThisLayerHas(t *testing.T) {
	has := catalog.Served{
		Workloads: []catalog.Workload{catalog.Replicated, catalog.Publish, catalog.Stage, catalog.TakeOver, catalog.Writers},
		Checks:    randomChecks,
		Counts:    []catalog.Count{catalog.PowerLosses},
	}
	for _, d := range disturbances() {
		require.NotEqual(t, d.fault == "", d.workload == "", d.name)
		if d.fault != "" && !slices.Contains(has.Faults, d.fault) {
			has.Faults = append(has.Faults, d.fault)
		}
		if d.workload != "" && !slices.Contains(has.Workloads, d.workload) {
			has.Workloads = append(has.Workloads, d.workload)
		}
	}
	require.Empty(t, catalog.Differences(catalog.Lab, has))
	require.GreaterOrEqual(t, len(has.Faults), 16)
}

// The short form's round has two faults of different names and a loss of power, whatever the seed.
func TestTheShortFormHasTwoFaultsAndALossOfPower(t *testing.T) {
	for seed := range uint64(200) {
		r := &randomRun{rng: rand.New(rand.NewPCG(seed, 0))}
		drawn := r.draw(1)
		require.Len(t, drawn, 3, "seed %d", seed)
		kinds := map[catalog.Fault]bool{}
		for _, d := range drawn {
			kinds[d.fault] = true
		}
		require.Len(t, kinds, 3, "seed %d: %v", seed, names(drawn))
		require.True(t, kinds[catalog.PowerLoss], "seed %d", seed)
		require.True(t, slices.IsSortedFunc(drawn, func(a, b *disturbance) int { return a.order - b.order }))
	}
}
