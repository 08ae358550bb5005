package conformance

import (
	"strings"
	"sync"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/replicate"
)

var emptySource = &replication.ReplicationSource{}

// replicationRows are those that need no second replica: what is refused before anything is decided, and what is
// answered of a volume that is not replicated. All others are rows of the lab, whose guests have DRBD.
var replicationRows = map[string]rowTest{
	"ADD-REPL-Svc-01": advertisedIffServed(replicationCapability, onControllers, replicationMethods...),
	"ADD-REPL-Svc-03": rowOf(func(k *fixture) {
		for _, other := range []string{"/replication.v1.Controller/", "/csiaddons.replication.Controller/", "/replication.Replication/"} {
			for _, method := range replicate.Methods {
				err := k.env.Conn(k.t, "c1").Invoke(k.ctx, other+method, &replication.PromoteVolumeRequest{}, &replication.PromoteVolumeResponse{})
				requireRefused(k.t, err, codes.Unimplemented)
			}
		}
		eachReplication(func(k *fixture, method string) {
			requireRefused(k.t, k.replicate(method, requestOf(method, replicate.Request{})), codes.InvalidArgument) // this one is there
		})(k.t, k.env)
	}),
	"ADD-REPL-Svc-04": rowOf(func(k *fixture) {
		for _, id := range []string{"c1", "c2", "c3"} {
			var served []string
			for method, is := range k.servedAddons(k.env.Conn(k.t, id)) {
				if name, own := strings.CutPrefix(method, replicate.Service+"/"); own && is {
					served = append(served, name)
				}
			}
			require.ElementsMatch(k.t, replicate.Methods, served, id)
		}
	}),

	"ADD-REPL-Source-01": eachReplication(func(k *fixture, method string) {
		for _, r := range []replicate.Request{{Source: emptySource}, {Source: emptySource, VolumeID: k.volume().ID}} {
			requireRefused(k.t, k.replicate(method, requestOf(method, r)), codes.InvalidArgument)
		}
	}),
	"ADD-REPL-Source-02": eachReplication(func(k *fixture, method string) {
		requireRefused(k.t, k.replicate(method, requestOf(method, replicate.Request{Source: replicate.VolumeSource("")})), codes.InvalidArgument)
	}),
	"ADD-REPL-Source-03": eachReplication(func(k *fixture, method string) {
		requireRefused(k.t, k.replicate(method, requestOf(method, replicate.Request{Source: replicate.GroupSource("")})), codes.InvalidArgument)
	}),
	"ADD-REPL-Source-04": eachReplication(func(k *fixture, method string) {
		requireRefused(k.t, k.replicate(method, requestOf(method, replicate.Request{})), codes.InvalidArgument)
	}),
	"ADD-REPL-Source-06": rowOf(sourcesThatDisagree),

	"ADD-REPL-Enable-02":  replicationParameters(replicate.Enable),
	"ADD-REPL-Disable-02": replicationParameters(replicate.Disable),
	"ADD-REPL-Promote-02": replicationParameters(replicate.Promote),
	"ADD-REPL-Demote-02":  replicationParameters(replicate.Demote),
	"ADD-REPL-Resync-02":  replicationParameters(replicate.Resync),

	"ADD-REPL-Enable-03":  replicationSecrets(replicate.Enable),
	"ADD-REPL-Disable-03": replicationSecrets(replicate.Disable),
	"ADD-REPL-Promote-03": replicationSecrets(replicate.Promote),
	"ADD-REPL-Demote-03":  replicationSecrets(replicate.Demote),
	"ADD-REPL-Resync-03":  replicationSecrets(replicate.Resync),
	"ADD-REPL-Info-02":    replicationSecrets(replicate.Info),

	"ADD-REPL-Enable-04":  replicationRefused(replicate.Enable, codes.InvalidArgument, noSource...),
	"ADD-REPL-Disable-04": replicationRefused(replicate.Disable, codes.InvalidArgument, noSource...),
	"ADD-REPL-Promote-04": replicationRefused(replicate.Promote, codes.InvalidArgument, noSource...),
	"ADD-REPL-Demote-04":  replicationRefused(replicate.Demote, codes.InvalidArgument, noSource...),
	"ADD-REPL-Resync-04":  replicationRefused(replicate.Resync, codes.InvalidArgument, noSource...),
	"ADD-REPL-Info-03":    replicationRefused(replicate.Info, codes.InvalidArgument, noSource...),

	"ADD-REPL-Enable-05":  unknownSources(replicate.Enable),
	"ADD-REPL-Disable-05": unknownSources(replicate.Disable),
	"ADD-REPL-Promote-05": unknownSources(replicate.Promote),
	"ADD-REPL-Demote-05":  unknownSources(replicate.Demote),
	"ADD-REPL-Resync-05":  unknownSources(replicate.Resync),

	"ADD-REPL-Enable-07":  replicationToken(replicate.Enable),
	"ADD-REPL-Disable-07": replicationToken(replicate.Disable),
	"ADD-REPL-Promote-07": replicationToken(replicate.Promote),
	"ADD-REPL-Demote-07":  replicationToken(replicate.Demote),
	"ADD-REPL-Resync-07":  replicationToken(replicate.Resync),
	"ADD-REPL-Info-06":    replicationToken(replicate.Info),

	"ADD-REPL-Promote-09": replicationServed(replicate.Promote),
	"ADD-REPL-Demote-09":  replicationServed(replicate.Demote),
	"ADD-REPL-Resync-09":  replicationServed(replicate.Resync),
	"ADD-REPL-Info-08":    replicationServed(replicate.Info),

	"ADD-REPL-Demote-11": notReplicated(replicate.Demote),
	"ADD-REPL-Resync-11": notReplicated(replicate.Resync),

	"ADD-REPL-Disable-09": rowOf(func(k *fixture) {
		volume := k.volume().ID
		group := k.volumeGroup(volume).GetVolumeGroupId()
		for range 2 {
			require.NoError(k.t, k.replicate(replicate.Disable, replicate.Request{Volume: volume}))
			require.NoError(k.t, k.replicate(replicate.Disable, replicate.Request{Group: group, ID: "dr-1"}))
		}
		k.requireAlive(volume)
	}),
}

// sourcesThatDisagree: the source counts only where the deprecated id says the same.
func sourcesThatDisagree(k *fixture) {
	ids := k.volumes(2)
	group := k.volumeGroup(ids[0]).GetVolumeGroupId()
	for _, method := range replicate.Methods {
		for _, r := range []replicate.Request{
			{Volume: ids[0], VolumeID: ids[1]}, {Volume: ids[0], VolumeID: unknownVolumeID}, {Volume: unknownVolumeID, VolumeID: ids[0]}, {Group: group, VolumeID: ids[0]},
		} {
			requireRefused(k.t, k.replicate(method, requestOf(method, r)), codes.InvalidArgument)
		}
		if method != replicate.Enable {
			k.requirePlain(method, k.replicate(method, replicate.Request{Volume: ids[0], VolumeID: ids[0]}))
		}
	}
}

// replicationFaultRows stop processes.
var replicationFaultRows = map[string]rowTest{
	"ADD-REPL-Enable-08":  replicationFailure(replicate.Enable),
	"ADD-REPL-Disable-08": replicationFailure(replicate.Disable),
	"ADD-REPL-Promote-08": replicationFailure(replicate.Promote),
	"ADD-REPL-Demote-08":  replicationFailure(replicate.Demote),
	"ADD-REPL-Resync-08":  replicationFailure(replicate.Resync),
	"ADD-REPL-Info-07":    replicationFailure(replicate.Info),
}

// replicationFailures is what each method answered without a majority; one outage serves all rows.
var replicationFailures struct {
	once sync.Once
	errs map[string]error
}

// replicationFailure makes a row of a call that fails without a majority. UNKNOWN is the last resort: this failure has a
// code of its own, and says what it is.
func replicationFailure(method string) rowTest {
	return rowOf(func(k *fixture) {
		replicationFailures.once.Do(func() { replicationFailures.errs = failReplication(k) })
		err := replicationFailures.errs[method]
		require.Error(k.t, err)
		k.requireCode(method, err, retriableCodes...)
		require.NotEmpty(k.t, status.Convert(err).Message())
	})
}
