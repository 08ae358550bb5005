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
	certificateLife = 365 * 24 * time.Hour
	// leftoverPatience is how long the children of a killed supervisor may take to die.
	leftoverPatience = 5 * time.Second
)

// operators are the certificates that `--dir` uses: one that may change things,
// one that may only look.
var operators = []pki.Identity{{Role: pki.Admin, Name: "dev"}, {Role: pki.Viewer, Name: "dev"}}

// prepare makes all that the processes need and do not make themselves.
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
	if err := certificates(l, s); err != nil {
		return fmt.Errorf("prepare the cluster in %s: %w", l.dir, err)
	}
	return awaitFree(ctx, l, s)
}

// certificates issues what is not there, or not good any more.
func certificates(l layout, s *settings) error {
	if _, err := os.Stat(l.ca()); errors.Is(err, os.ErrNotExist) {
		if err := pki.MakeCA(l.ca(), s.Cluster); err != nil {
			return err
		}
	}
	who := append([]pki.Identity{}, operators...)
	for _, id := range ids("c", s.Controllers) {
		who = append(who, pki.Identity{Role: pki.Controller, Name: id})
	}
	for _, id := range ids("n", s.Nodes) {
		who = append(who, pki.Identity{Role: pki.Node, Name: id})
	}
	for _, id := range who {
		if _, err := pki.Load(l.files(id.Role, id.Name)); err == nil {
			continue
		}
		if _, err := pki.Issue(l.ca(), l.pki(id.Role, id.Name), id, certificateLife); err != nil {
			return err
		}
	}
	return nil
}

// awaitFree waits until no process uses this cluster's ports and sockets. The
// children of a supervisor that was killed die just after it.
func awaitFree(ctx context.Context, l layout, s *settings) error {
	end := time.Now().Add(leftoverPatience)
	for {
		err := busy(l, s)
		if err == nil || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func busy(l layout, s *settings) error {
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
