package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const (
	// RequireVariable set in the environment makes a missing prerequisite a failure of
	// the test and no skip. CI, which machines that run tests set, does the same.
	RequireVariable = "HOLDFAST_REQUIRE_LAB"
	// BinaryVariable names a holdfast binary to use instead of building one.
	BinaryVariable = "HOLDFAST_BINARY"
	// LogsVariable names a directory that the logs of failed tests are copied to.
	LogsVariable = "HOLDFAST_LAB_LOGS"
)

// ErrUnavailable is the error of a machine that a lab cannot run on.
var ErrUnavailable = errors.New("this machine cannot run a lab")

const (
	mib = 1 << 20
	gib = 1 << 30
)

// Config describes a lab. The zero value is a lab of three guests.
type Config struct {
	// Number, 1 to 60, sets the lab's names and subnets; 0 takes the first that is free.
	Number int
	// Guests is how many there are, at most 9; 0 means 3.
	Guests int
	// Memory of each guest in bytes; 0 means 256 MiB.
	Memory int64
	// StateDisk is the size in bytes of the ext4 disk below /var/lib/holdfast and
	// /var/lib/drbd; 0 means 1 GiB. It is sparse.
	StateDisk int64
	// Disks are the sizes in bytes of each guest's raw disks, for LVM: /dev/ubdc, /dev/ubdd
	// and so on. They are sparse. Nil means one of 1 GiB; an empty list means none.
	Disks []int64
	// Holdfast is the binary for the guests. Empty: $HOLDFAST_BINARY, else it is built.
	// The guests see a copy, at /usr/sbin/holdfast.
	Holdfast string
	// NoHoldfast leaves the binary out, for tests that need none.
	NoHoldfast bool
}

func (c Config) withDefaults() Config {
	if c.Guests == 0 {
		c.Guests = 3
	}
	if c.Memory == 0 {
		c.Memory = 256 * mib
	}
	if c.StateDisk == 0 {
		c.StateDisk = gib
	}
	if c.Disks == nil {
		c.Disks = []int64{gib}
	}
	return c
}

func (c Config) check() error {
	if c.Guests < 1 || c.Guests > 9 {
		return fmt.Errorf("make a lab of %d guests: choose 1 to 9", c.Guests)
	}
	if len(c.Disks) > lastDisk-firstDisk {
		return fmt.Errorf("make a lab with %d raw disks in each guest: at most %d", len(c.Disks), lastDisk-firstDisk)
	}
	return nil
}

// requiredPrograms are the programs that the lab calls and their Debian packages.
func requiredPrograms() []requiredProgram {
	return []requiredProgram{
		{guestKernel().program, "user-mode-linux"}, {"busybox", "busybox-static"}, {"ip", "iproute2"}, {"nft", "nftables"},
		{"mkfs.ext4", "e2fsprogs"}, {"drbdadm", "drbd-utils"}, {"lvm", "lvm2"}, {"cryptsetup", "cryptsetup-bin"}, {"thin_check", "thin-provisioning-tools"},
		{"insmod", "kmod"}, {"bash", "bash"},
	}
}

type requiredProgram struct{ program, pkg string }

// WhyUnavailable says why a lab cannot run here: an ErrUnavailable that names what is missing, or nil.
func WhyUnavailable() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: it needs root for networks and mount namespaces", ErrUnavailable)
	}
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	_ = tun.Close() // nothing was written
	var missing []string
	for _, n := range requiredPrograms() {
		if _, err := exec.LookPath(n.program); err != nil {
			missing = append(missing, n.pkg)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: packages are missing: apt-get install %s", ErrUnavailable, strings.Join(missing, " "))
	}
	return nil
}

// isRequired reports whether an unfit machine is a failure.
func isRequired() bool { return os.Getenv(RequireVariable) != "" || os.Getenv("CI") != "" }
