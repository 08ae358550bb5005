package controller

import (
	"context"
	"fmt"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/csi/group"
	"github.com/holdfast-storage/holdfast/csi/identity"
	"github.com/holdfast-storage/holdfast/csi/metadata"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/raftnode/access"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// openServers makes the two gRPC servers and registers their services.
func (c *controller) openServers() error {
	if err := c.openCSI(); err != nil {
		return err
	}
	countCalls, err := daemon.CountCalls(c.registry, "api")
	if err != nil {
		return err
	}
	unary, stream := access.Interceptors()
	recoverUnary, recoverStream := daemon.RecoverCalls(c.log)
	options := append(session.ServerOptions(),
		grpc.Creds(pki.LogRefusals(c.creds.ServerCredentials(pki.Controller, pki.Node, pki.Admin, pki.Operator, pki.Viewer), c.log)),
		grpc.ChainUnaryInterceptor(countCalls, recoverUnary, unary), grpc.ChainStreamInterceptor(recoverStream, stream))
	c.api = grpc.NewServer(options...)
	sessionpb.RegisterSessionServer(c.api, c.sessions)
	members := &adminCluster{cluster: c.cluster}
	checks := newHostChecks(c, members)
	c.sessions.SetOwnFacts(checks.ownFacts)
	volumes, err := c.volumeCalls()
	if err != nil {
		return err
	}
	audits := newAuditMetrics()
	if err := c.registry.Register(audits); err != nil {
		return fmt.Errorf("register the metrics of audits: %w", err)
	}
	adminpb.RegisterAdminServer(c.api, admin.NewServer(admin.Options{
		VolumeCalls: volumes,
		Cluster:     members, HostChecks: checks, Membership: raftMembership{c.cluster}, Hosts: hostQueries{c.members}, Pools: hostQueries{c.members}.Pools,
		TakeBackup: c.takeBackup, Audited: func(result *adminpb.AuditResponse) { audits.note(result, time.Now()) }, AttachFacts: c.monitor.Facts().Attach, Name: c.name, Actor: actor, CallerSerial: callerSerial, TokenAuthority: c.tokenAuthority, Error: rpcerr.From, Logger: c.log,
	}))
	return nil
}

// openCSI makes the server of the CSI socket: Identity and the controllers' services,
// never Node (S20).
func (c *controller) openCSI() (err error) {
	if c.csi, err = server.New(server.Config{Logger: c.log, Metrics: c.registry, Interceptors: c.token.Interceptors()}); err != nil {
		return err
	}
	disabled, err := c.disabled.Disabled()
	if err != nil {
		return err
	}
	identityServer, err := identity.New(identity.Config{
		Version: daemon.Version(), Ready: c.cluster.health, Disabled: disabled.Services, NoExpansion: disabled.HasExpansion(),
	})
	if err != nil {
		return err
	}
	csiState := csiCluster{c.cluster, "controller/" + c.name, c.site}
	csispec.RegisterIdentityServer(c.csi, identityServer)
	csispec.RegisterControllerServer(c.csi, c.controllerService(csiState, disabled.Controller))
	if !disabled.HasService(csispec.PluginCapability_Service_GROUP_CONTROLLER_SERVICE) {
		csispec.RegisterGroupControllerServer(c.csi, group.New(csiState, disabled.Group...))
	}
	if !disabled.HasService(csispec.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE) {
		csispec.RegisterSnapshotMetadataServer(c.csi, metadata.New(csiState, c.members))
	}
	c.openAddons(identityServer, csiState, disabled)
	return nil
}

// actor returns the caller's identity, as TLS verified it.
func actor(ctx context.Context) (string, error) {
	peer, err := pki.Peer(ctx)
	if err != nil {
		return "", err
	}
	return peer.Actor(), nil
}

// callerSerial returns the serial number of the caller's certificate, empty where there is none.
func callerSerial(ctx context.Context) string {
	of, err := pki.PeerCertificate(ctx)
	if err != nil {
		return ""
	}
	return of.Serial
}
