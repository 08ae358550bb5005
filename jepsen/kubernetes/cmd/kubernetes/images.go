package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/image"
)

// agnhostFrom is the version of Kubernetes from whose module agnhost is built.
const agnhostFrom = "v1.37.2"

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// makeImages writes the archives of the images whose programs are there, and returns them with Holdfast's.
func (o options) makeImages() ([]string, error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	small, err := image.BusyboxOf(busybox)
	if err != nil {
		return nil, err
	}
	debian, err := image.Debian(small)
	if err != nil {
		return nil, err
	}
	images := map[string]image.Image{
		"busybox": small, "debian": debian, "pause": image.Pause(cluster.PauseImage, filepath.Join(o.programs, "pause")),
	}
	if program := filepath.Join(o.programs, "agnhost-"+agnhostFrom); isThere(program) {
		images["agnhost"] = image.Agnhost(program, small)
	}
	for name, version := range cluster.Sidecars {
		program := filepath.Join(o.programs, name+"-"+version)
		if isThere(program) {
			images[name] = image.Program("registry.k8s.io/sig-storage/"+name+":"+version, program, "/"+name)
		}
	}
	for _, a := range cluster.AddonsImages {
		if program := filepath.Join(o.programs, a.Name+"-"+cluster.AddonsVersion); isThere(program) {
			img := image.Program(a.Image+":"+cluster.AddonsVersion, program, a.At)
			img.User = a.User
			images[a.Name] = img
		}
	}
	return o.writeImages(images)
}

func (o options) writeImages(images map[string]image.Image) ([]string, error) {
	dir := filepath.Join(o.dir, "images")
	failed := os.MkdirAll(dir, 0o755)
	var archives []string
	for name, img := range images {
		path := filepath.Join(dir, name+".tar")
		failed = errors.Join(failed, image.Write(path, img))
		archives = append(archives, path)
	}
	if isThere(o.image) {
		archives = append(archives, o.image)
	}
	return archives, failed
}
