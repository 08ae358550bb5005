package access

import (
	"slices"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// The roles of people: each may do what the one before it may. Viewers read. Operators do the daily work, all of which can be
// undone. Admins do what can lose data, trust or a quorum, and take backups, which are recorded. Viewers may read the whole state
// too: it has no keys.
var (
	viewers   = []pki.Role{pki.Viewer, pki.Operator, pki.Admin}
	operators = []pki.Role{pki.Operator, pki.Admin}
	admins    = []pki.Role{pki.Admin}
)

// The roles of processes.
var (
	nodes       = []pki.Role{pki.Node}
	controllers = []pki.Role{pki.Controller}
)

// readers may read what the loop beside a controller does, which has that controller's certificate; a controller knows all of it.
// takers may take a node out of service.
var (
	readers = append(slices.Clip(viewers), pki.Controller)
	takers  = append(slices.Clip(operators), pki.Controller)
)

// Row says who may call one method, or have it do one verb.
type Row struct {
	Method string // full, as gRPC has it
	Verb   string // what the request's verb must be; empty: the method has no verbs, or all are alike
	Roles  []pki.Role
}

// Table is who may do what.
var Table = []Row{
	{"/holdfast.admin.v1.Admin/Status", "", viewers},
	{"/holdfast.admin.v1.Admin/Volumes", "", readers},
	{"/holdfast.admin.v1.Admin/Snapshots", "", viewers},
	{"/holdfast.admin.v1.Admin/GroupSnapshots", "", viewers},
	{"/holdfast.admin.v1.Admin/VolumeGroups", "", viewers},
	{"/holdfast.admin.v1.Admin/Nodes", "", readers},
	{"/holdfast.admin.v1.Admin/Fences", "", viewers},
	{"/holdfast.admin.v1.Admin/Operations", "", viewers},
	{"/holdfast.admin.v1.Admin/History", "", viewers},
	{"/holdfast.admin.v1.Admin/VerifyHistory", "", viewers},
	{"/holdfast.admin.v1.Admin/Audit", "", viewers},
	{"/holdfast.admin.v1.Admin/Doctor", "", viewers},
	{"/holdfast.admin.v1.Admin/Dump", "", viewers},
	{"/holdfast.admin.v1.Admin/State", "", viewers},
	{"/holdfast.admin.v1.Admin/Plan", "", viewers},
	{"/holdfast.admin.v1.Admin/UpgradeStatus", "", viewers},
	{"/holdfast.admin.v1.Admin/Members", "", readers},
	{"/holdfast.admin.v1.Admin/PlanMember", "", viewers},
	{"/holdfast.admin.v1.Admin/AtRisk", "", viewers},
	{"/holdfast.admin.v1.Admin/Tolerance", "", viewers},
	{"/holdfast.admin.v1.Admin/RebootSafe", "", viewers},
	{"/holdfast.admin.v1.Admin/OutOfService", "", readers},
	{"/holdfast.admin.v1.Admin/Certificates", "", viewers},
	{"/holdfast.admin.v1.Admin/PlanRevocation", "", viewers},
	{"/holdfast.admin.v1.Admin/Tokens", "", viewers},
	{"/holdfast.admin.v1.Admin/PlanToken", "", viewers},
	{"/holdfast.admin.v1.Admin/PlanVolume", "", viewers},

	{"/holdfast.admin.v1.Admin/CancelOperation", "", operators},
	{"/holdfast.admin.v1.Admin/RetryOperation", "", operators},
	{"/holdfast.admin.v1.Admin/ClaimMaintenance", "", operators},
	{"/holdfast.admin.v1.Admin/SetOutOfService", "", takers},
	{"/holdfast.admin.v1.Admin/CarryOut", "drain", operators},
	{"/holdfast.admin.v1.Admin/CarryOut", "undrain", operators},
	{"/holdfast.admin.v1.Admin/ChangeVolume", "publish", operators},
	{"/holdfast.admin.v1.Admin/ChangeVolume", "unpublish", operators},

	{"/holdfast.admin.v1.Admin/CarryOut", "evict", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "lost", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "replace", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "adopt", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "adopt-cluster", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "force-primary", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "remove-kept", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "fence", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "unfence", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "restore-header", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "enable-replication", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "disable-replication", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "promote", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "demote", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "resync", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "import-lv", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "forget-import", admins},
	{"/holdfast.admin.v1.Admin/CarryOut", "import-drbd", admins},
	{"/holdfast.admin.v1.Admin/AdoptNode", "", admins},
	{"/holdfast.admin.v1.Admin/Backup", "", admins},
	{"/holdfast.admin.v1.Admin/FinishUpgrade", "", admins},
	{"/holdfast.admin.v1.Admin/ChangeMember", "", admins},
	{"/holdfast.admin.v1.Admin/ChangeRevocation", "", admins},
	{"/holdfast.admin.v1.Admin/ChangeToken", "", admins},
	{"/holdfast.admin.v1.Admin/ChangeVolume", "create", admins},
	{"/holdfast.admin.v1.Admin/ChangeVolume", "delete", admins},
	{"/holdfast.admin.v1.Admin/ChangeVolume", "expand", admins},

	{"/holdfast.session.v1.Session/Attach", "", nodes},
	{"/holdfast.session.v1.Session/Propose", "", nodes},
	{"/holdfast.session.v1.Session/RebootSafe", "", nodes},

	// On the Raft listener, which takes controllers' certificates only.
	{"/holdfast.session.v1.Peers/Facts", "", controllers},
	{"/holdfast.session.v1.Peers/Inventory", "", controllers},
	{"/holdfast.session.v1.Peers/Map", "", controllers},
	{"/holdfast.session.v1.Peers/Volume", "", controllers},
	{"/holdfast.session.v1.Peers/Replica", "", controllers},
	{"/holdfast.session.v1.Peers/HostFacts", "", controllers},
	{"/holdfast.raftnode.v1.Member/Propose", "", controllers},
	{"/holdfast.raftnode.v1.Member/ProposeAll", "", controllers},
	{"/holdfast.raftnode.v1.Member/ReadIndex", "", controllers},
	{"/holdfast.raftnode.v1.Member/Join", "", controllers},
	{"/holdfast.raftnode.v1.Member/Remove", "", controllers},
	{"/holdfast.raftnode.v1.Member/Demote", "", controllers},
	{"/holdfast.raftnode.v1.Member/Transfer", "", controllers},
	{"/holdfast.raftnode.v1.Member/Status", "", controllers},
}
