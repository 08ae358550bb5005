package kubeapi

// A resource is one kind of objects, as discovery names it.
type resource struct {
	group, version string // group is empty for the core
	name, kind     string // name is the plural, by which paths have it
	namespaced     bool
	status         bool // written through a path of its own
}

const (
	addonsGroup      = "csiaddons.openshift.io"
	replicationGroup = "replication.storage.openshift.io"
)

// resources are all kinds. Their names are unique.
var resources = []resource{
	{"", "v1", "configmaps", "ConfigMap", true, false},
	{"", "v1", "events", "Event", true, false},
	{"", "v1", "namespaces", "Namespace", false, false},
	{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true, true},
	{"", "v1", "persistentvolumes", "PersistentVolume", false, true},
	{"", "v1", "pods", "Pod", true, true},
	{"", "v1", "secrets", "Secret", true, false},
	{"apps", "v1", "replicasets", "ReplicaSet", true, true},
	{"authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false, false},
	{"coordination.k8s.io", "v1", "leases", "Lease", true, false},
	{"storage.k8s.io", "v1", "storageclasses", "StorageClass", false, false},
	{"storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false, true},
	{addonsGroup, "v1alpha1", "csiaddonsnodes", "CSIAddonsNode", true, true},
	{addonsGroup, "v1alpha1", "encryptionkeyrotationcronjobs", "EncryptionKeyRotationCronJob", true, true},
	{addonsGroup, "v1alpha1", "encryptionkeyrotationjobs", "EncryptionKeyRotationJob", true, true},
	{addonsGroup, "v1alpha1", "networkfenceclasses", "NetworkFenceClass", false, true},
	{addonsGroup, "v1alpha1", "networkfences", "NetworkFence", false, true},
	{addonsGroup, "v1alpha1", "reclaimspacecronjobs", "ReclaimSpaceCronJob", true, true},
	{addonsGroup, "v1alpha1", "reclaimspacejobs", "ReclaimSpaceJob", true, true},
	{replicationGroup, "v1alpha1", "volumegroupreplicationclasses", "VolumeGroupReplicationClass", false, true},
	{replicationGroup, "v1alpha1", "volumegroupreplicationcontents", "VolumeGroupReplicationContent", false, true},
	{replicationGroup, "v1alpha1", "volumegroupreplications", "VolumeGroupReplication", true, true},
	{replicationGroup, "v1alpha1", "volumereplicationclasses", "VolumeReplicationClass", false, true},
	{replicationGroup, "v1alpha1", "volumereplications", "VolumeReplication", true, true},
}

// find is the resource of that name.
func find(name string) (resource, bool) {
	for _, r := range resources {
		if r.name == name {
			return r, true
		}
	}
	return resource{}, false
}

// groupVersion is what objects have as their apiVersion.
func (r resource) groupVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}
