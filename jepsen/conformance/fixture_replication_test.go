package conformance

import (
	"context"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/replicate"
)

// replicateAt calls a method of the replication service of a process.
func (k *fixture) replicateAt(conn *grpc.ClientConn, method string, r replicate.Request) error {
	_, err := replicate.Call(k.ctx, conn, method, r)
	return err
}

// replicate calls a method at c1.
func (k *fixture) replicate(method string, r replicate.Request) error {
	return k.replicateAt(k.env.Conn(k.t, "c1"), method, r)
}

// plain is what each method answers of a volume that is not replicated, where the request has nothing wrong. Of
// EnableVolumeReplication it is no definite code: hosts of this cluster have no DRBD, and there is one site.
var plain = map[string]codes.Code{
	replicate.Disable: codes.OK, replicate.Promote: codes.FailedPrecondition, replicate.Demote: codes.FailedPrecondition,
	replicate.Resync: codes.FailedPrecondition, replicate.Info: codes.FailedPrecondition,
}

// requirePlain requires that a call was answered as of a volume that is not replicated.
func (k *fixture) requirePlain(method string, err error) {
	k.t.Helper()
	want, definite := plain[method]
	require.True(k.t, definite, method)
	if want == codes.OK {
		require.NoError(k.t, err)
		return
	}
	requireRefused(k.t, err, want)
}

// requestOf is a request with the parameter that the method needs: there is no such peer.
func requestOf(method string, r replicate.Request) replicate.Request {
	if method == replicate.Enable {
		return r.With("peerSite", "elsewhere")
	}
	return r
}

// replicationRefused makes a row of requests of a method that are answered with a code, twice. What they have wrong
// is seen before anything of the source is.
func replicationRefused(method string, want codes.Code, wrong ...replicate.Request) rowTest {
	return rowOf(func(k *fixture) {
		for _, r := range wrong {
			for range 2 {
				requireRefused(k.t, k.replicate(method, requestOf(method, r)), want)
			}
		}
	})
}

// eachReplication makes a row of every method.
func eachReplication(row func(k *fixture, method string)) rowTest {
	return rowOf(func(k *fixture) {
		for _, method := range replicate.Methods {
			row(k, method)
		}
	})
}

// noSource are requests in which the source, or its id, is missing.
var noSource = []replicate.Request{
	{}, {Source: emptySource}, {Source: replicate.VolumeSource("")}, {Source: replicate.GroupSource("")},
}

// unknownSource are requests of what does not exist.
var unknownSource = []replicate.Request{
	{Volume: unknownVolumeID}, {Volume: "of another form"}, {VolumeID: unknownVolumeID}, {Group: unknownVolumeGroupID}, {Group: "of another form"},
}

// unknownSources makes a row of a method that is called for what does not exist.
func unknownSources(method string) rowTest {
	return rowOf(func(k *fixture) {
		group := k.volumeGroup(k.volume().ID).GetVolumeGroupId()
		for _, r := range append(unknownSource, replicate.Request{Group: k.volume().ID}, replicate.Request{Volume: group}) {
			for range 2 {
				requireRefused(k.t, k.replicate(method, requestOf(method, r)), codes.NotFound)
			}
		}
	})
}

// replicationParameters makes a row of the parameters of a method: one that nobody knows, one that is meant for another
// site and a value that means nothing are refused, and those of an orchestrator are passed over.
func replicationParameters(method string) rowTest {
	return rowOf(func(k *fixture) {
		r := replicate.Request{Volume: k.volume().ID}
		for key, value := range map[string]string{"colour": "blue", "site": "another", "protocol": "D", "keep": "perhaps", "together": "2", "isolated": "burn"} {
			requireRefused(k.t, k.replicate(method, requestOf(method, r.With(key, value))), codes.InvalidArgument)
		}
		if method != replicate.Enable {
			passed := r.With("schedulingInterval", "1m").With("schedulingStartTime", "now").With("csi.storage.k8s.io/pvc/name", "data").With("site", "default")
			k.requirePlain(method, k.replicate(method, passed))
			return
		}
		for _, peer := range []string{"", "of an\nother form", "default"} { // and the endpoint's own
			requireRefused(k.t, k.replicate(method, r.With("peerSite", peer)), codes.InvalidArgument)
		}
		requireRefused(k.t, k.replicate(method, r), codes.InvalidArgument)
	})
}

// replicationSecrets makes a row of the secrets of a method, in calls that are answered and in calls that are refused.
func replicationSecrets(method string) rowTest {
	return rowOf(func(k *fixture) {
		const canary = "canary-71bd3f-replication"
		r := replicate.Request{Volume: k.volume().ID, Secrets: map[string]string{"password": canary}}
		var errs []error
		for _, request := range []replicate.Request{r, r.With("colour", "blue"), {Volume: unknownVolumeID, Secrets: r.Secrets}, {Volume: r.Volume, Secrets: map[string]string{"not allowed": canary}}} {
			errs = append(errs, k.replicate(method, requestOf(method, request)))
		}
		for _, err := range errs {
			require.NotContains(k.t, status.Convert(err).Message(), canary)
		}
		requireRefused(k.t, errs[3], codes.InvalidArgument)
		require.NotEqual(k.t, codes.Unimplemented, status.Code(errs[0]))
		k.requireNotOnDisk(canary)
	})
}

// replicationToken makes a row of the token of a method.
func replicationToken(method string) rowTest {
	return withWrongToken("c1", func(k *fixture, conn *grpc.ClientConn, secrets map[string]string) error {
		return k.replicateAt(conn, method, requestOf(method, replicate.Request{Volume: unknownVolumeID, Secrets: secrets}))
	})
}

// replicationServed makes a row of a method that is served exactly where replication is advertised.
func replicationServed(method string) rowTest {
	return rowServedIff(addonsHas(replicationCapability), func(k *fixture, conn *grpc.ClientConn) error {
		return ignoreCode(k.replicateAt(conn, method, replicate.Request{Volume: unknownVolumeID}), codes.NotFound)
	})
}

// notReplicated makes a row of a method that needs a source that is replicated.
func notReplicated(method string) rowTest {
	return rowOf(func(k *fixture) {
		volume := k.volume().ID
		group := k.volumeGroup(volume).GetVolumeGroupId()
		for _, force := range []bool{false, true} {
			for range 2 {
				requireRefused(k.t, k.replicate(method, replicate.Request{Volume: volume, Force: force}), codes.FailedPrecondition)
				requireRefused(k.t, k.replicate(method, replicate.Request{Group: group, Force: force}), codes.FailedPrecondition)
			}
		}
	})
}

// failReplication is what each method answers without a majority.
func failReplication(k *fixture) map[string]error {
	r := replicate.Request{Volume: k.volume().ID}
	calls := map[string]func(ctx context.Context) error{}
	for _, method := range replicate.Methods {
		conn := k.env.Conn(k.t, "c1")
		calls[method] = func(ctx context.Context) error {
			_, err := replicate.Call(ctx, conn, method, requestOf(method, r))
			return err
		}
	}
	errs := k.callWithoutQuorum(calls)
	for method := range plain {
		var err error
		require.NotContains(k.t, retriableCodes, status.Code(retried(k.ctx, func(ctx context.Context) error { err = calls[method](ctx); return err })))
		k.requirePlain(method, err) // nothing came of them by halves
	}
	return errs
}

var retriableCodes = []codes.Code{codes.Aborted, codes.Unavailable, codes.DeadlineExceeded}
