package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

const (
	certificateValidity = 365 * 24 * time.Hour
	// leftoverTimeout is how long the children of a killed supervisor may take to exit.
	leftoverTimeout = 5 * time.Second
)

// operatorIdentities are the certificates that `--dir` uses: one that may change things, one that may
// only read.
var operatorIdentities = []pki.Identity{{Role: pki.Admin, Name: "dev"}, {Role: pki.Viewer, Name: "dev"}}

// prepare creates what the processes need and do not create themselves.
func prepare(ctx context.Context, l layout, s *settings) error {
	folders := []string{l.path("log"), l.sockets()}
	for _, id := range ids("c", s.Controllers) {
		folders = append(folders, l.controller(id))
	}
	for _, id := range ids("n", s.Nodes) {
		folders = append(folders, l.nodeData(id), l.pool(id))
	}
	for _, dir := range folders {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("prepare the cluster in %s: %w", l.dir, err)
		}
	}
	if err := issueCertificates(l, s); err != nil {
		return fmt.Errorf("prepare the cluster in %s: %w", l.dir, err)
	}
	return awaitPortsFree(ctx, l, s)
}

// issueCertificates issues certificates that are missing or not valid any more.
func issueCertificates(l layout, s *settings) error {
	if _, err := os.Stat(l.ca()); errors.Is(err, os.ErrNotExist) {
		if err := pki.MakeCA(l.ca(), s.Cluster); err != nil {
			return err
		}
	}
	identities := append([]pki.Identity{}, operatorIdentities...)
	for _, id := range ids("c", s.Controllers) {
		identities = append(identities, pki.Identity{Role: pki.Controller, Name: id})
	}
	for _, id := range ids("n", s.Nodes) {
		identities = append(identities, pki.Identity{Role: pki.Node, Name: id})
	}
	for _, id := range identities {
		if _, err := pki.Load(l.files(id.Role, id.Name)); err == nil {
			continue
		}
		if _, err := pki.Issue(l.ca(), l.pki(id.Role, id.Name), id, certificateValidity); err != nil {
			return err
		}
	}
	return nil
}

// awaitPortsFree waits until no process uses this cluster's ports and sockets: the children of a killed
// supervisor exit shortly after it.
func awaitPortsFree(ctx context.Context, l layout, s *settings) error {
	deadline := time.Now().Add(leftoverTimeout)
	for {
		err := checkPortsFree(l, s)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func checkPortsFree(l layout, s *settings) error {
	for id, ports := range s.Ports {
		for purpose := range ports {
			if err := tryPort(s.address(id, purpose)); errors.Is(err, syscall.EADDRINUSE) {
				return exit.Unavailablef("start the cluster in %s: port %s (%s of %s) is in use; stop what uses it", l.dir, s.address(id, purpose), purpose, id)
			}
		}
		if conn, err := net.DialTimeout("unix", l.csi(id), time.Second); err == nil {
			_ = conn.Close()
			return exit.Unavailablef("start the cluster in %s: a process serves %s; stop it", l.dir, l.csi(id))
		}
	}
	return nil
}
