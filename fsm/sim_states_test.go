package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

const (
	diskless     = fsmpb.DiskState_DISK_STATE_DISKLESS
	inconsistent = fsmpb.DiskState_DISK_STATE_INCONSISTENT
	consistent   = fsmpb.DiskState_DISK_STATE_CONSISTENT
	upToDate     = fsmpb.DiskState_DISK_STATE_UP_TO_DATE

	standAlone = fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE
	connecting = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING
	connected  = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
	syncSource = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
	syncTarget = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
)
