package image

import (
	"os/exec"
	"strings"
)

// Busybox is what the programs of stories and of Kubernetes' own tests run in.
const Busybox = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"

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
	img := Image{Names: []string{Busybox}, Files: []File{{At: "/bin/busybox", From: program}}, Cmd: []string{"sh"}}
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
