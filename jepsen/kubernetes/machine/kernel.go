package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Kernel is one that the machine boots in user-mode Linux instead of sharing the host's, which may lack what volumes need, as DRBD. The
// machine's network, files, disks and cgroups are this guest's: what ends the machine is a loss of power to it. Its root and its disks are
// devices /dev/ubdb, /dev/ubdc and so on; a disk without a place to be mounted at stays raw.
type Kernel struct {
	Program string // linux.uml
	Modules string // the folder with a folder of modules for each release
	Memory  int64  // bytes
	// Load are modules that are not loaded by themselves.
	Load []string
	// Address is the guest's, with the length of its network's prefix; Gateway is where the default route goes.
	Address, Gateway string
	// Routes are addresses by the networks that are behind them.
	Routes map[string]string
}

// ownKernel is where deploy/user-mode-linux.sh installs one.
const ownKernel = "/usr/local/lib/user-mode-linux"

// InstalledKernel is the one that deploy/user-mode-linux.sh installs.
func InstalledKernel() (Kernel, error) {
	k := Kernel{Program: filepath.Join(ownKernel, "linux.uml"), Modules: filepath.Join(ownKernel, "modules")}
	if _, err := os.Stat(k.Program); err != nil {
		return k, fmt.Errorf("the kernel of guests is missing, which deploy/user-mode-linux.sh installs: %w", err)
	}
	return k, nil
}

// guestArg is an argument of a guest's first process, which is this program.
const guestArg = "guest-init"

const tap = "tap0"

// Boot starts the machine's own kernel. What the guest runs is said to Run, before or after.
func (c Config) Boot(ctx context.Context) error {
	// The machine does not see every folder of the host.
	if err := copyFile("/proc/self/exe", c.path("init")); err != nil {
		return err
	}
	if err := c.ips(ctx, "tuntap add dev "+tap+" mode tap", "link add "+bridge+" type bridge", "link set eth0 master "+bridge+" up",
		"link set "+tap+" master "+bridge+" up", "link set "+bridge+" up"); err != nil {
		return err
	}
	kernel := Unit{Name: "kernel", Args: c.kernelCommand(), Env: []string{"TMPDIR=/dev/shm", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}}
	if err := c.runOutside(kernel); err != nil {
		return fmt.Errorf("boot the guest %s: %w", c.Name, err)
	}
	return c.waitFor(ctx, guestReady)
}

func (c Config) kernelCommand() []string {
	k := c.Kernel
	argv := []string{
		k.Program, fmt.Sprintf("mem=%dM", k.Memory>>20), "umid=" + c.Name, "uml_dir=" + c.path("uml"), "root=/dev/root", "rootfstype=hostfs", "rootflags=/",
		"ro", "seccomp=on", "panic=1", "noreboot", "initcall_blacklist=raid6_select_algo", "con=null", "con0=null,fd:1", "ssl=null",
		"vec0:transport=tap,ifname=" + tap + ",depth=128,gro=1", "ubdb=" + c.path("guest.img"),
	}
	for i, d := range c.Disks {
		argv = append(argv, fmt.Sprintf("ubd%c=%s", 'c'+i, c.path(d.Name+".img")))
	}
	return append(argv, "init="+c.path("init"), "--", guestArg, c.Dir, c.Name)
}

// PlugGuest connects the machine to the switch of another; the address is its guest's.
func (c Config) PlugGuest(ctx context.Context, into Config) error {
	if c.Kernel == nil {
		return errors.New("the machine has no kernel of its own")
	}
	return c.cable(ctx, into)
}

// device is that of one of the guest's disks.
func device(number int) string { return fmt.Sprintf("/dev/ubd%c", 'c'+number) }

// Device is that of the machine's disk of this name, where its own kernel has it.
func (c Config) Device(disk string) (string, error) {
	number := slices.IndexFunc(c.Disks, func(d Disk) bool { return d.Name == disk })
	if number < 0 || c.Kernel == nil {
		return "", fmt.Errorf("the machine %s has no kernel of its own with a disk %s", c.Name, disk)
	}
	return device(number), nil
}

// guest is the machine as its own kernel's first process has it.
type guest struct{ Config }

// steps make a guest of a kernel that has just booted, with the machine's root, which it may not write to, as its own.
func (g guest) steps() []step {
	return []step{
		{"mount the kernel's filesystems", func() error {
			return errors.Join(mount("proc", "/proc", "proc", 0, ""), mount("sysfs", "/sys", "sysfs", 0, ""))
		}},
		{"load the module of overlays", g.loadOverlay},
		{"make its root", g.makeRoot},
		{"change to its root", g.pivot},
		{"pretend a clock of its processor", pretendClock},
		{"name it", func() error { return setHostname(g.Name) }},
		{"load modules", g.loadModules},
		{"connect it", g.connect},
		{"forward packets", forwardPackets},
	}
}

func (g guest) makeRoot() error {
	if err := run("mount", "-t", "xfs", "/dev/ubdb", diskAt); err != nil {
		return err
	}
	if err := g.makeOverlay(",index=off,metacopy=off,xino=off"); err != nil {
		return err
	}
	err := errors.Join(
		within("proc", "/proc", "proc", 0, ""),
		within("sysfs", "/sys", "sysfs", 0, ""),
		within("devtmpfs", "/dev", "devtmpfs", 0, ""),
		within("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620,gid=5"),
		within("shm", "/dev/shm", "tmpfs", 0, "mode=1777"),
		within("run", "/run", "tmpfs", 0, "mode=0755"),
		within("tmp", "/tmp", "tmpfs", 0, "mode=1777"),
		within("cgroup2", cgroupRoot, "cgroup2", 0, ""),
		within("none", g.Dir, "hostfs", 0, g.Dir),
	)
	return errors.Join(err, g.mountKept(), g.mountDisks(func(i int, at string) error {
		return run("mount", "-t", "xfs", device(i), at)
	}))
}

// pretendClock lies about the processor what kubelet insists on, and this kernel does not know.
func pretendClock() error {
	known, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err
	}
	const file = "/run/cpuinfo"
	if err := os.WriteFile(file, append(bytes.TrimRight(known, "\n"), "\ncpu MHz\t\t: 1000.000\n"...), 0o644); err != nil {
		return err
	}
	return run("mount", "--bind", file, "/proc/cpuinfo")
}

// loadOverlay loads what the root is made of, when nothing else is there yet.
func (g guest) loadOverlay() error {
	release, err := release()
	if err != nil {
		return err
	}
	return run("insmod", filepath.Join(g.Kernel.Modules, release, "kernel/fs/overlayfs/overlay.ko"))
}

// loadModules has the kernel's modules where every program and every container looks for them.
func (g guest) loadModules() error {
	release, err := release()
	if err != nil {
		return err
	}
	at := filepath.Join("/lib/modules", release)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := run("mount", "--bind", filepath.Join(g.Kernel.Modules, release), at); err != nil {
		return err
	}
	return run("modprobe", append([]string{"-a"}, g.Kernel.Load...)...)
}

func (g guest) connect() error {
	commands := [][]string{
		{"link", "set", "lo", "up"}, {"link", "set", "vec0", "up"}, {"addr", "add", g.Kernel.Address, "dev", "vec0"},
		{"route", "add", "default", "via", g.Kernel.Gateway},
	}
	for network, via := range g.Kernel.Routes {
		commands = append(commands, []string{"route", "add", network, "via", via})
	}
	for _, args := range commands {
		if err := run("ip", args...); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(to), os.WriteFile(to, content, 0o755))
}

// release is the running kernel's.
func release() (string, error) {
	out, err := exec.Command("uname", "-r").Output()
	if err != nil {
		return "", fmt.Errorf("read the kernel's release: %w", err)
	}
	return string(out[:len(out)-1]), nil
}
