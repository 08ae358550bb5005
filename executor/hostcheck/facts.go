package hostcheck

import (
	"encoding/json"
	"fmt"
	"time"
)

// Role is what runs on the host.
type Role string

// The roles.
const (
	Node       Role = "node"
	Controller Role = "controller"
)

// Facts are what a host showed. They travel as JSON: a build ignores the facts that it does not know, and
// misses those that an older one does not gather. A fact that could not be gathered is nil, or has Err set.
type Facts struct {
	Role     Role      `json:"role"`
	Hostname string    `json:"hostname"`
	Version  string    `json:"version,omitempty"` // of the build that looked
	At       time.Time `json:"at"`
	Kernel   string    `json:"kernel,omitempty"` // its release
	UID      int       `json:"uid"`

	Namespaces *Namespaces `json:"namespaces,omitempty"` // nil where they cannot be seen
	SignedOnly bool        `json:"signed_modules_only,omitempty"`

	Modules map[string]Module `json:"modules,omitempty"`
	Tools   map[string]Tool   `json:"tools,omitempty"`

	Udev      *Udev      `json:"udev,omitempty"`
	LVM       *LVM       `json:"lvm,omitempty"`
	Multipath *Multipath `json:"multipath,omitempty"`
	DRBD      *DRBD      `json:"drbd,omitempty"`
	Cgroup    *Cgroup    `json:"cgroup,omitempty"`
	Clock     *Clock     `json:"clock,omitempty"`
	Limits    *Limits    `json:"limits,omitempty"`
	DataDir   *DataDir   `json:"data_dir,omitempty"`
	Disk      *Latency   `json:"disk,omitempty"`
	Spaces    []Space    `json:"spaces,omitempty"`
	Certs     []Cert     `json:"certs,omitempty"`
	ThinPools []ThinPool `json:"thin_pools,omitempty"`
	Reached   []Reach    `json:"reached,omitempty"` // controllers, as this host reaches them; of a controller's host the other members
	Wants     Wants      `json:"wants"`

	PoolDisks []Latency `json:"pool_disks,omitempty"` // of pools of files
	RaftSyncs *Syncs    `json:"raft_syncs,omitempty"` // of a controller
	Ports     []Port    `json:"ports,omitempty"`      // that others listen on, and this host is to

	// Controllers and Hosts are whom a node's host was asked to reach, and Listened whether it could be reached by the other hosts.
	Controllers []Reach   `json:"controllers,omitempty"`
	Hosts       []Reach   `json:"hosts,omitempty"`
	Listened    *Listened `json:"listened,omitempty"`

	// Remembered counts the revocations that the host remembers of a lost log and no later one was seen to know.
	Remembered int `json:"remembered_revocations,omitempty"`
}

// Wants is what the process on the host is started for, which decides what is missing.
type Wants struct {
	FilePool    bool `json:"file_pool,omitempty"`   // a pool of files
	ThinPool    bool `json:"thin_pool,omitempty"`   // a pool of LVM
	Replication bool `json:"replication,omitempty"` // replicas of replicated volumes
	IOCgroup    bool `json:"io_cgroup,omitempty"`   // a control group is named
}

// Module is a module of the kernel.
type Module struct {
	Loaded    bool   `json:"loaded,omitempty"`    // or built in
	Available bool   `json:"available,omitempty"` // it can be loaded
	Unlisted  bool   `json:"unlisted,omitempty"`  // this kernel's list of modules could not be read
	Beside    bool   `json:"beside,omitempty"`    // it was built beside the kernel, as dkms does
	Version   string `json:"version,omitempty"`
}

// Namespaces are those of the process that looks: a pod has some of its own.
type Namespaces struct {
	OwnPID bool `json:"own_pid,omitempty"`
	OwnNet bool `json:"own_net,omitempty"`
	OwnUTS bool `json:"own_uts,omitempty"`
	OwnIPC bool `json:"own_ipc,omitempty"`
}

// Tool is a host's command.
type Tool struct {
	Path    string `json:"path,omitempty"` // empty: it is not there
	Version string `json:"version,omitempty"`
	Err     string `json:"err,omitempty"` // why it is not there
}

// Udev is whether udev manages devices here.
type Udev struct {
	Running bool `json:"running"`
}

// LVM is how the host's own LVM commands look at devices.
type LVM struct {
	GlobalFilter []string `json:"global_filter,omitempty"` // patterns, as lvm.conf has them
	Filter       []string `json:"filter,omitempty"`
	UseDevices   bool     `json:"use_devices_file,omitempty"` // a devices file is in use and exists
	Devices      []string `json:"devices,omitempty"`          // that it lists
	ScanLVs      bool     `json:"scan_lvs,omitempty"`
	AutoActivate bool     `json:"auto_activate,omitempty"` // volume groups that appear are activated
	HostHasNone  bool     `json:"host_has_none,omitempty"` // it is in this container only
	Unseen       bool     `json:"unseen,omitempty"`        // what is read here is a container's configuration: the host's is not seen
	Err          string   `json:"err,omitempty"`
}

// Multipath is whether multipath uses devices that are Holdfast's.
type Multipath struct {
	Running bool     `json:"running,omitempty"`
	Claims  []string `json:"claims,omitempty"` // devices of ours below a multipath device
}

// DRBD is the kernel's module and how it is set.
type DRBD struct {
	Version    string            `json:"version,omitempty"` // empty: it is not loaded
	Parameters map[string]string `json:"parameters,omitempty"`
	HelperErr  string            `json:"helper_err,omitempty"` // why the helper that it names cannot be run
}

// Cgroup is the host's control groups.
type Cgroup struct {
	Version int  `json:"version"` // 0: none are mounted
	IO      bool `json:"io"`      // there is a controller of I/O
}

// Clock is what the kernel knows of its clock.
type Clock struct {
	Synchronised bool          `json:"synchronised"`
	MaxError     time.Duration `json:"max_error,omitempty"`
	Daemon       string        `json:"daemon,omitempty"` // that sets it, as far as it is known
	Err          string        `json:"err,omitempty"`
}

// Limits are those of the process that uses the data folder, or else of the one that looked.
type Limits struct {
	PID   int    `json:"pid,omitempty"`
	Files uint64 `json:"files"`
	Err   string `json:"err,omitempty"`
}

// DataDir is the data folder.
type DataDir struct {
	Path     string `json:"path"`
	Missing  bool   `json:"missing,omitempty"`
	Mode     uint32 `json:"mode,omitempty"`
	Identity string `json:"identity,omitempty"` // of the host or the member; empty: there is none yet
	Err      string `json:"err,omitempty"`      // why its identity cannot be used
	Holder   int    `json:"holder,omitempty"`   // the process that has locked it; 0: none
	LockErr  string `json:"lock_err,omitempty"` // why that is not known
}

// Latency is of durable writes below a folder.
type Latency struct {
	Path   string        `json:"path,omitempty"` // of a pool
	Writes int           `json:"writes"`
	P50    time.Duration `json:"p50"`
	P99    time.Duration `json:"p99"`
	Max    time.Duration `json:"max"`
	Err    string        `json:"err,omitempty"`

	Buckets []Bucket `json:"buckets,omitempty"`
}

// Space is what is free below a folder.
type Space struct {
	Path       string `json:"path"`
	Free       int64  `json:"free"` // bytes
	Total      int64  `json:"total"`
	FreeInodes uint64 `json:"free_inodes"`
	Inodes     uint64 `json:"inodes"` // 0: the filesystem does not count them
	Err        string `json:"err,omitempty"`
}

// Cert is a file of a certificate, or of a key, whose content is never among the facts.
type Cert struct {
	Kind     string    `json:"kind"` // certificate, key, CA
	Path     string    `json:"path"`
	Mode     uint32    `json:"mode,omitempty"`
	DirMode  uint32    `json:"dir_mode,omitempty"`
	Mounted  bool      `json:"mounted,omitempty"` // of a Secret, whose folder does not count
	NotAfter time.Time `json:"not_after,omitzero"`
	Err      string    `json:"err,omitempty"`
}

// ThinPool is a thin pool that the node uses, or is to use.
type ThinPool struct {
	VG      string  `json:"vg"`
	Name    string  `json:"name"`
	NoVG    bool    `json:"no_vg,omitempty"`
	NoPool  bool    `json:"no_pool,omitempty"` // the node makes it
	Data    float64 `json:"data,omitempty"`    // percent that is used
	Meta    float64 `json:"meta,omitempty"`
	Err     string  `json:"err,omitempty"`
	Checked bool    `json:"checked,omitempty"` // data and metadata are known
}

// Reach is whether an address answered.
type Reach struct {
	Address string        `json:"address"`
	Took    time.Duration `json:"took,omitempty"`
	Err     string        `json:"err,omitempty"`
	Refused bool          `json:"refused,omitempty"` // the host answered that nothing listens there
}

// Encode writes the facts as they travel.
func (f *Facts) Encode() ([]byte, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("write the facts of host %s: %w", f.Hostname, err)
	}
	return text, nil
}

// Decode reads what Encode wrote, also by another build.
func Decode(text []byte) (*Facts, error) {
	f := &Facts{}
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("read a host's facts: %w", err)
	}
	return f, nil
}
