package main

import (
	"context"
	"fmt"
	"time"

	"github.com/csi-addons/spec/lib/go/replication"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// source is the volume, as what is replicated.
func (d *demo) source() *replication.ReplicationSource {
	return &replication.ReplicationSource{Type: &replication.ReplicationSource_Volume{Volume: &replication.ReplicationSource_VolumeSource{VolumeId: d.id}}}
}

// parameters are those of a site's class: it names itself and the other one.
func (s *site) parameters() map[string]string {
	return map[string]string{"site": s.name, "peerSite": map[string]string{"A": "B", "B": "A"}[s.name]}
}

func (d *demo) enable(ctx context.Context, s *site) error {
	return retry(ctx, "enable the replication at site "+s.name, func(ctx context.Context) error {
		_, err := s.replication.EnableVolumeReplication(ctx, &replication.EnableVolumeReplicationRequest{ReplicationSource: d.source(), Parameters: s.parameters()})
		return err
	})
}

// promote promotes without force, and answers what the calls said until it was done, in short.
func (d *demo) promote(ctx context.Context, s *site) (refusals []string, err error) {
	err = retry(ctx, "promote site "+s.name, func(ctx context.Context) error {
		err := d.promoteOnce(ctx, s, false)
		if said := status.Convert(err).Message(); err != nil && (len(refusals) == 0 || refusals[len(refusals)-1] != said) {
			refusals = append(refusals, said)
		}
		return err
	})
	return refusals, err
}

func (d *demo) promoteOnce(ctx context.Context, s *site, force bool) error {
	_, err := s.replication.PromoteVolume(ctx, &replication.PromoteVolumeRequest{ReplicationSource: d.source(), Force: force, Parameters: s.parameters()})
	return err
}

func (d *demo) demote(ctx context.Context, s *site) error {
	return retry(ctx, "demote site "+s.name, func(ctx context.Context) error {
		_, err := s.replication.DemoteVolume(ctx, &replication.DemoteVolumeRequest{ReplicationSource: d.source(), Parameters: s.parameters()})
		return err
	})
}

// awaitReady repeats a resynchronisation until it is ready, and answers how many calls that took.
func (d *demo) awaitReady(ctx context.Context, s *site) (calls int, err error) {
	err = retry(ctx, "resynchronise site "+s.name, func(ctx context.Context) error {
		calls++
		resp, err := s.replication.ResyncVolume(ctx, &replication.ResyncVolumeRequest{ReplicationSource: d.source(), Force: true, Parameters: s.parameters()})
		if err == nil && !resp.GetReady() {
			err = status.Error(codes.Aborted, "it is not ready")
		}
		return err
	})
	return calls, err
}

// awaitHealthy waits until the site that has the role says that both have everything.
func (d *demo) awaitHealthy(ctx context.Context, s *site) (found *replication.GetVolumeReplicationInfoResponse, err error) {
	err = retry(ctx, "ask site "+s.name+" for the replication", func(ctx context.Context) error {
		found, err = s.replication.GetVolumeReplicationInfo(ctx, &replication.GetVolumeReplicationInfoRequest{ReplicationSource: d.source()})
		if err == nil && found.GetStatus() != replication.GetVolumeReplicationInfoResponse_HEALTHY {
			err = status.Errorf(codes.Aborted, "it is %s: %s", found.GetStatus(), found.GetStatusMessage())
		}
		return err
	})
	return found, err
}

// requireRefused tries what must not succeed, and prints the answer.
func (d *demo) requireRefused(ctx context.Context, what string, want codes.Code, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	begin := time.Now()
	err := call(ctx)
	if status.Code(err) != want {
		return fmt.Errorf("%s: it is answered %w, and not %s", what, err, want)
	}
	d.printStepf("%s: %s after %s: %s", what, want, elapsed(begin), status.Convert(err).Message())
	return nil
}

// retriable is an error that retry repeats.
func retriable(why string) error { return status.Error(codes.Aborted, why) }
