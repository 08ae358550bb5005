package catalog

// Workload is one kind of work that clients do.
type Workload string

// The workloads.
const (
	CreateVolume  Workload = "create"         // volumes are created, under names that others use too
	DeleteVolume  Workload = "delete"         // volumes are deleted
	Publish       Workload = "publish"        // volumes are published to hosts and unpublished
	Stage         Workload = "stage"          // volumes are staged, made targets of, and the reverse
	Expand        Workload = "expand"         // volumes grow
	Modify        Workload = "modify"         // limits of volumes change
	Snapshot      Workload = "snapshot"       // snapshots are taken and deleted
	Clone         Workload = "clone"          // volumes are made of snapshots and of volumes
	GroupSnapshot Workload = "group-snapshot" // snapshots of several volumes at one instant
	Read          Workload = "read"           // volumes are read and listed, by name and by page
	Replicated    Workload = "replicated"     // volumes with two replicas
	Replace       Workload = "replace"        // replicas are added, removed and replaced
	TakeOver      Workload = "take-over"      // the other replica's host becomes primary
	Encrypted     Workload = "encrypted"      // volumes are encrypted
	RotateKey     Workload = "rotate-key"     // keys of encrypted volumes are replaced
	TwoSites      Workload = "two-sites"      // orchestrators of two sites use equal names, and each other's endpoints
	Writers       Workload = "writers"        // stamps of site, host, epoch and sequence are written into blocks
	Proposals     Workload = "proposals"      // commands are proposed to members, and read back
	Operator      Workload = "operator"       // an operator cordons, attests, forces and takes back
)
