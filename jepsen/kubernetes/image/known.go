package image

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// Busybox is what the programs of stories run in.
const Busybox = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"

// shells are other images of which Kubernetes' own tests of storage, in its two newest versions, want a shell and its programs only.
var shells = []string{
	"registry.k8s.io/e2e-test-images/busybox:1.37.0-2", "registry.k8s.io/e2e-test-images/nginx:1.27.0-2", "registry.k8s.io/e2e-test-images/nginx:1.15-4",
}

// debians are those of which they want GNU's dd beside a shell.
var debians = []string{"registry.k8s.io/e2e-test-images/glibc-dns-testing:2.1.1", "registry.k8s.io/e2e-test-images/glibc-dns-testing:2.0.0"}

// Debian makes an image from busybox, and a shell and dd of the host with the libraries that they load: busybox's shell runs its own dd.
func Debian(busybox Image) (Image, error) {
	img, have := Image{Names: debians, Cmd: busybox.Cmd}, map[string]bool{}
	put := func(f File) {
		if !have[f.At] {
			have[f.At], img.Files = true, append(img.Files, f)
		}
	}
	for _, name := range []string{"sh", "dd"} {
		program, err := exec.LookPath(name)
		if err != nil {
			return Image{}, err
		}
		listed, err := exec.Command("ldd", program).Output()
		if err != nil {
			return Image{}, fmt.Errorf("list the libraries of %s: %w", program, err)
		}
		put(File{At: "/bin/" + name, From: program})
		for _, path := range regexp.MustCompile(`/\S+`).FindAllString(string(listed), -1) {
			put(File{At: path, From: path})
		}
	}
	for _, f := range busybox.Files {
		put(f)
	}
	return img, nil
}

// Agnhosts are the names under which the suites of the two newest versions of Kubernetes ask for their test program.
var Agnhosts = []string{"registry.k8s.io/e2e-test-images/agnhost:2.66.1", "registry.k8s.io/e2e-test-images/agnhost:2.63.0"}

// Agnhost makes the image of Kubernetes' test program, which has a shell and nsenter beside it.
func Agnhost(program string, busybox Image) Image {
	files := append([]File{{At: "/agnhost", From: program}}, busybox.Files...)
	return Image{Names: Agnhosts, Files: files, Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}}
}

// Pause makes the image that holds a pod's namespaces from a static program.
func Pause(name, program string) Image {
	return Image{Names: []string{name}, Files: []File{{At: "/pause", From: program}}, Entrypoint: []string{"/pause"}, User: "65535:65535"}
}

// BusyboxOf makes an image from a static busybox of the host, with a link for each of its programs.
func BusyboxOf(program string) (Image, error) {
	listed, err := exec.Command(program, "--list").Output()
	if err != nil {
		return Image{}, err
	}
	img := Image{Names: append([]string{Busybox}, shells...), Files: []File{{At: "/bin/busybox", From: program}}, Cmd: []string{"sh"}}
	for _, name := range strings.Fields(string(listed)) {
		if name != "busybox" {
			img.Files = append(img.Files, File{At: "/bin/" + name, Link: "busybox"})
		}
	}
	return img, nil
}

// Program makes the image of one static program, as the sidecars' images are: nothing else is in it.
func Program(name, program, at string) Image {
	return Image{Names: []string{name}, Files: []File{{At: at, From: program}}, Entrypoint: []string{at}}
}
