package lab

import (
	"os"
	"path/filepath"
)

// kernelHome has the kernel that deploy/user-mode-linux.sh installs.
const kernelHome = "/usr/local/lib/user-mode-linux"

// kernel is what guests boot: a program of the host.
type kernel struct {
	program string
	modules string // the folder that has those of each release in a folder of its name
	options []string
}

// guestKernel is the one of kernelHome, else that of the host's release. Only the former knows seccomp, with which a guest's processes
// can read the memory of the guest's kernel: they are the tests' own.
func guestKernel() kernel {
	k := kernel{program: filepath.Join(kernelHome, "linux.uml"), modules: filepath.Join(kernelHome, "modules"), options: []string{"seccomp=on"}}
	if _, err := os.Stat(k.program); err != nil {
		return kernel{program: "linux.uml", modules: "/usr/lib/uml/modules"}
	}
	return k
}
