package conformance

// catalogue is every table of rows; a table has one file.
var catalogue = []map[string]rowTest{
	createVolumeRows, capacityRangeRows, getCapacityRows, topologyRows,
	volumeCapabilityRows, volumeRows, deleteVolumeRows, publishRows, unpublishRows, validateRows,
	listVolumesRows, getVolumeRows, conditionRows, capabilitiesRows, createSnapshotRows, deleteSnapshotRows, listSnapshotsRows, expandRows,
	groupRows,
	extensionRows,
	metadataRows,
	generalRows, sizeRows, identityRows, processRows,
	nodeStageRows,
	nodePublishRows,
	nodeTableRows,
	nodeUnpublishRows,
	nodeStatsRows,
	nodeInfoRows,
	nodeExpandRows,
	addonsIdentityRows, volumeGroupRows, membershipRows, alphaRows, reclaimRows, nodeReclaimRows,
	replicationRows,
}

// disruptiveRows is every table of rows that kill, stop or starve a process of the
// shared cluster; they run after all others and put back what they took.
var disruptiveRows = []map[string]rowTest{
	disabledCreateRows, disabledCapacityRows, disabledCapabilityRows, disabledPublishRows, disabledValidateRows, disabledListRows, disabledSnapshotRows, disabledExpandRows,
	faultRows,
	lateRows,
	nodeDisruptiveRows,
	addonsProbeRows, volumeGroupFaultRows, reclaimFaultRows, replicationFaultRows,
}
