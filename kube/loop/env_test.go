package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

var errKilled = errors.New("the loop was killed")

// writes counts the writes of a loop, and ends it at one of them: before or after it has its effect.
type writes struct {
	at    int // 0: never
	after bool
	n     int
	dead  bool
	mu    sync.Mutex // of n and dead, while a loop runs
}

// do does one write.
func (w *writes) do(write func() error) error {
	dead, last := w.count()
	if dead {
		return errKilled
	}
	if !last {
		return write()
	}
	if w.after {
		if err := write(); err != nil {
			return err
		}
	}
	return errKilled
}

// count tells whether the loop is dead, and whether this is its last write.
func (w *writes) count() (dead, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return true, false
	}
	w.n++
	w.dead = w.n == w.at
	return false, w.dead
}

// killedAnywhere runs a story with the loop killed before, and after, each of its writes, until it has no more.
func killedAnywhere(t *testing.T, story func(t *testing.T, w *writes)) {
	t.Helper()
	story(t, &writes{})
	for at := 1; ; at++ {
		reached := false
		for _, after := range []bool{false, true} {
			w := &writes{at: at, after: after}
			story(t, w)
			reached = reached || w.dead
		}
		if !reached {
			require.Greater(t, at, 2)
			return
		}
	}
}

// logs is a Log of a few nodes, as fsm decides.
type logs struct {
	t       *testing.T
	writes  *writes
	index   uint64
	nodes   []*adminpb.Node
	volumes []*adminpb.Volume
	members []*adminpb.Member
	state   map[string]*adminpb.OutOfServiceResponse
	severed bool   // the peers of who is out of service disconnected it
	check   func() // before a node returns
	err     error
	// volumesErr is what only Volumes answers; onVolumes runs before.
	volumesErr error
	onVolumes  func(context.Context)
	mu         sync.Mutex
}

func (l *logs) Nodes(context.Context) ([]*adminpb.Node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*adminpb.Node, len(l.nodes))
	for i, n := range l.nodes {
		all[i] = proto.CloneOf(n) // as over a connection: the duties read at the same time
		all[i].OutOfService = l.state[n.GetId()].GetSince()
	}
	return all, l.err
}
func (l *logs) Volumes(ctx context.Context) ([]*adminpb.Volume, error) {
	if l.onVolumes != nil {
		l.onVolumes(ctx)
	}
	return l.volumes, errors.Join(l.err, l.volumesErr)
}
func (l *logs) Members(context.Context) ([]*adminpb.Member, error) { return l.members, l.err }

func (l *logs) OutOfService(_ context.Context, node string) (*adminpb.OutOfServiceResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.state[node]
	if x == nil || l.err != nil {
		return nil, l.err
	}
	x.Index = l.index
	x.Proven, x.Waits, x.Ended = x.Since != 0 && l.severed, nil, nil
	switch {
	case x.Since != 0 && l.severed:
		x.Ended = []*adminpb.WritesEnded{{Volume: "hf-1", Generation: x.Since, Witness: "n2", Reason: "n2 disconnected it"}}
	case x.Since != 0:
		x.Waits = []string{"n2 has not disconnected it"}
	}
	return proto.CloneOf(x), nil
}

func (l *logs) SetOutOfService(_ context.Context, req *adminpb.SetOutOfServiceRequest) error {
	return l.writes.do(func() error {
		if x := l.state[req.GetNode()]; req.GetReturned() != 0 && x.Since == req.GetReturned() && x.ReturnWaits == "" {
			l.check()
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		x := l.state[req.GetNode()]
		l.index++
		switch {
		case req.GetReturned() == 0 && x.Since == 0:
			require.Equal(l.t, "unreachable", x.State)
			require.Equal(l.t, x.HostId, req.GetHostId())
			x.Since, x.ReturnWaits = l.index, "its host cannot be reached"
		case req.GetReturned() != 0 && x.Since == req.GetReturned() && x.ReturnWaits != "":
			return status.Error(codes.FailedPrecondition, x.ReturnWaits)
		case req.GetReturned() != 0 && x.Since == req.GetReturned():
			x.Since = 0
		}
		return nil
	})
}

// back: the host has a session again, and ended what it held.
func (l *logs) back(node string) {
	l.state[node].State, l.state[node].ReturnWaits = "reachable", ""
}

// env is Kubernetes as its API server behaves, without its controllers, which settle stands for.
type env struct {
	t    *testing.T
	kube *fake.Clientset
	log  *logs
	said *events.FakeRecorder
	*writes
	// immutable: the node affinity of a volume cannot be changed. onWrite sees each object that was written.
	immutable bool
	onWrite   func(runtime.Object)
	onDelete  func(runtime.Object)
	// noVolumes: somebody who admits objects takes no persistent volume.
	noVolumes bool
	// controllers is how many pods of controllers there are.
	controllers int
	// image is what guards are made with.
	image string
	// leaseSilent: the kubelet of n1 does not renew its Lease, and that of n2 does.
	leaseSilent bool
	// made is how many objects there were; version is the last one of a budget.
	made, version int
}

func newEnv(t *testing.T, w *writes, objects ...runtime.Object) *env {
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: plan.GuardOwnerRole, UID: "role-1"}}
	e := &env{t: t, kube: fake.NewClientset(append(objects, role)...), writes: w, said: events.NewFakeRecorder(1000), immutable: true, image: "holdfast:1"}
	e.log = &logs{t: t, writes: w, index: 70, state: map[string]*adminpb.OutOfServiceResponse{}, check: func() {}}
	e.kube.PrependReactor("*", "*", func(action k8stesting.Action) (bool, runtime.Object, error) {
		if slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) || e.writes == nil {
			return false, nil, nil
		}
		var object runtime.Object
		err := e.writes.do(func() (err error) { object, err = e.write(action); return err })
		return true, object, err
	})
	return e
}

// kubelets says what leaseSilent says.
func (e *env) kubelets() *Kubelets {
	k := &Kubelets{}
	if e.leaseSilent {
		last := time.Now()
		k.looked = last.Add(time.Hour)
		k.count, k.renewals = 1, map[string]renewal{"n1": {seen: last, silence: time.Minute}, "n2": {seen: k.looked, silence: time.Minute}}
	}
	return k
}

// loop is a process that begins with nothing.
func (e *env) loop() *Loop {
	metrics := NewMetrics(prometheus.NewRegistry())
	return New(Config{
		Kube: e.kube, Log: e.log, Metrics: metrics, Notifier: NewNotifier(e.said, metrics), Logger: slog.New(slog.DiscardHandler),
		Kubelets: e.kubelets(), Guard: plan.Guard{Namespace: "holdfast", Image: e.image}, Namespace: "holdfast", ControllerSelector: "app=controller",
		Often: time.Millisecond, Seldom: time.Millisecond,
	})
}

// Sync looks at everything but failovers once.
func (l *Loop) Sync(ctx context.Context) error {
	return errors.Join(l.SyncGuards(ctx), l.SyncVolumes(ctx))
}

// write does what the API server does beside keeping objects: finalizers, and what cannot be changed.
func (e *env) write(action k8stesting.Action) (runtime.Object, error) {
	_, object, err := e.before(action)
	if object != nil || err != nil {
		return object, err
	}
	_, object, err = k8stesting.ObjectReaction(e.kube.Tracker())(action)
	if err != nil {
		return object, err
	}
	if pv, ok := object.(*corev1.PersistentVolume); ok && pv.DeletionTimestamp != nil && len(pv.Finalizers) == 0 {
		return pv, e.kube.Tracker().Delete(pvs, "", pv.Name)
	}
	if e.onWrite != nil && object != nil {
		e.onWrite(object)
	}
	return object, nil
}

var pvs = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}

func (e *env) before(action k8stesting.Action) (bool, runtime.Object, error) {
	switch a := action.(type) {
	case k8stesting.PatchAction:
		if a.GetResource() == pvs && e.immutable && containsAffinity(a.GetPatch()) {
			return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolume"}, a.GetName(), nil)
		}
	case k8stesting.UpdateActionImpl:
		return false, nil, e.beforeUpdate(a)
	case k8stesting.CreateActionImpl:
		if eviction, ok := a.GetObject().(*policyv1.Eviction); ok {
			return true, eviction, e.evict(eviction)
		}
		if a.GetResource() == pvs && e.noVolumes {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, "", errors.New("a policy denied it"))
		}
		object := a.GetObject().(metav1.Object)
		e.made++
		object.SetUID(types.UID(fmt.Sprintf("made-%s-%d", object.GetUID(), e.made)))
		e.setVersion(a.GetResource(), object)
	case k8stesting.DeleteAction:
		return e.beforeDelete(a)
	}
	return false, nil, nil
}

func (e *env) beforeDelete(a k8stesting.DeleteAction) (bool, runtime.Object, error) {
	object, err := e.kube.Tracker().Get(a.GetResource(), a.GetNamespace(), a.GetName())
	if err != nil {
		return true, nil, err
	}
	if err := meets(object.(metav1.Object), a.GetDeleteOptions().Preconditions); err != nil {
		return true, nil, err
	}
	if e.onDelete != nil {
		e.onDelete(object)
	}
	if pv, ok := object.(*corev1.PersistentVolume); ok && len(pv.Finalizers) > 0 {
		pv = pv.DeepCopy()
		pv.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		return true, pv, e.kube.Tracker().Update(pvs, pv, "")
	}
	return false, nil, nil
}

// count counts the objects in the namespace holdfast, also in the middle of a write.
func (e *env) count(kind schema.GroupVersionKind) int {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	list, err := e.kube.Tracker().List(resource, kind, "holdfast")
	require.NoError(e.t, err)
	return meta.LenList(list)
}

// quietly does what Kubernetes' controllers do, which nobody kills.
func (e *env) quietly(do func()) {
	w := e.writes
	e.writes = nil
	do()
	e.writes = w
}
