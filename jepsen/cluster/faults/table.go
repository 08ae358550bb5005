package faults

import "github.com/holdfast-storage/holdfast/jepsen/catalog"

// All are the injectors of this package: one for each fault that a campaign chooses from.
func All() []Injector {
	return []Injector{
		{catalog.Kill, kill},
		{catalog.KillAll, killAll},
		{catalog.Pause, pause},
		{catalog.ClockStep, clockStep},
		{catalog.RollingRestart, rollingRestart},
		{catalog.MemoryLimit, memoryLimit},
		{catalog.FewDescriptors, fewDescriptors},
		{catalog.PartitionOne, partitionOne},
		{catalog.PartitionLeader, partitionLeader},
		{catalog.PartitionHalves, partitionHalves},
		{catalog.PartitionBridge, partitionBridge},
		{catalog.PartitionRing, partitionRing},
		{catalog.PartitionOneWay, partitionOneWay},
		{catalog.NetworkFlapping, flapping},
		{catalog.NetworkReset, reset},
		{catalog.NetworkDrop, drop},
		{catalog.NetworkDelay, delay},
		{catalog.NetworkSlow, slow},
		{catalog.NetworkDuplicate, duplicate},
		{catalog.DiskFull, diskFull},
		{catalog.CertExpiry, certExpiry},
		{catalog.MembershipChange, membershipChange},
		{catalog.SnapshotStorm, snapshotStorm},
	}
}
