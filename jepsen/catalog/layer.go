package catalog

// Layer is one way to run the product, from the fastest and most pretended to the slowest and most real.
type Layer string

// The layers.
const (
	Sim     Layer = "sim"     // L0: everything in one process on virtual time, over a pretended world; replayed to the bit
	RaftSim Layer = "raftsim" // L1: real Raft members in one process, over pretended networks and disks
	Cluster Layer = "cluster" // L2: real processes with networks and filesystems of their own
	Lab     Layer = "lab"     // L3: guests with kernels, disks and DRBD of their own
)

// Layers are all of them, the fastest first.
func Layers() []Layer { return []Layer{Sim, RaftSim, Cluster, Lab} }

// Served is what one layer has of the catalogue.
type Served struct {
	Workloads []Workload
	Faults    []Fault
	Checks    []Check
	// Counts are of what a whole run must have seen at least one; without, it was empty and fails.
	Counts []Count
}

// ServedBy answers what the layer must have.
func ServedBy(l Layer) Served {
	switch l {
	case Sim:
		return servedBySim
	case RaftSim:
		return servedByRaftSim
	case Cluster:
		return servedByCluster
	case Lab:
		return servedByLab
	}
	return Served{}
}
