package loop

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

func attachedTo(node, driver string) *storagev1.VolumeAttachment {
	name := "pvc-1"
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: driver + "-" + node},
		Spec:   storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
		Status: storagev1.VolumeAttachmentStatus{Attached: true}}
}

func userOf(claim, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "user", UID: "pod-1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}}}
}

// silent is a cluster whose node n1 is silent, with a pod and a volume of ours.
func silent(t *testing.T, w *writes, objects ...runtime.Object) *env {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule}}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	pv, claim := boundVolume()
	e := newEnv(t, w, append(objects, n, pv, claim, attachedTo("n1", plan.Driver), userOf("data", "n1"))...)
	e.log.state["n1"] = &adminpb.OutOfServiceResponse{Node: "n1", HostId: "host-1", State: "unreachable"}
	e.log.nodes = []*adminpb.Node{{Id: "n1", State: "unreachable"}}
	e.onWrite = func(o runtime.Object) {
		if n, ok := o.(*corev1.Node); ok && e.isTainted(n) {
			x, err := e.log.OutOfService(t.Context(), "n1")
			require.NoError(t, err)
			require.True(t, x.GetProven(), "it is tainted without a proof")
		}
	}
	e.log.check = func() { require.False(t, e.isTainted(e.node()), "it returns under the taint") }
	return e
}

func (e *env) node() *corev1.Node {
	n, err := e.kube.CoreV1().Nodes().Get(e.t.Context(), "n1", metav1.GetOptions{})
	require.NoError(e.t, err)
	return n
}

func (e *env) isTainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == plan.TaintOutOfService })
}

// detach is what Kubernetes does under the taint: it ends the pods and detaches their volumes.
func (e *env) detach() {
	e.quietly(func() {
		if !e.isTainted(e.node()) {
			return
		}
		for _, err := range []error{
			e.kube.CoreV1().Pods("default").Delete(e.t.Context(), "user", metav1.DeleteOptions{}),
			e.kube.StorageV1().VolumeAttachments().Delete(e.t.Context(), plan.Driver+"-n1", metav1.DeleteOptions{}),
		} {
			require.True(e.t, err == nil || apierrors.IsNotFound(err), err)
		}
	})
}

// kubelet has the node's kubelet heard of, or not.
func (e *env) kubelet(ready corev1.ConditionStatus) {
	e.quietly(func() {
		n := e.node()
		n.Status.Conditions[0].Status = ready
		_, err := e.kube.CoreV1().Nodes().UpdateStatus(e.t.Context(), n, metav1.UpdateOptions{})
		require.NoError(e.t, err)
	})
}

// revive lets another loop begin after this one was killed.
func revive(w *writes) (killed bool) {
	killed, w.dead, w.at = w.dead, false, 0
	return killed
}

// sync is one look of a loop that begins with nothing.
func (e *env) sync() {
	l := e.loop()
	require.NoError(e.t, l.Sync(e.t.Context()))
	require.NoError(e.t, l.SyncNodes(e.t.Context()))
}

// S170: wherever the loop is killed, the taint is there under the proof only, and is gone before the log lets the node
// serve; the next loop comes to the same end.
func TestS170_AFailoverGoesOnWhereverTheLoopIsKilled(t *testing.T) {
	orders := map[string][]func(*env){
		"it comes back":                          {(*env).sync, sever, (*env).sync, (*env).detach, (*env).sync, comeBack, (*env).sync, (*env).sync},
		"it comes back before its peers said so": {(*env).sync, comeBack, (*env).sync, sever, (*env).sync, podsGo, (*env).sync, (*env).sync},
		"it comes back before it is tainted":     {(*env).sync, comeBack, sever, (*env).sync, podsGo, (*env).sync, (*env).sync},
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) { failOverWhereverKilled(t, order, silent) })
		t.Run(name+", known by its Lease", func(t *testing.T) { failOverWhereverKilled(t, order, leaseSilent) })
	}
}

// leaseSilent is silent, but Kubernetes has the node as ready yet.
func leaseSilent(t *testing.T, w *writes, objects ...runtime.Object) *env {
	e := silent(t, w, objects...)
	e.kubelet(corev1.ConditionTrue)
	e.leaseSilent = true
	return e
}

func failOverWhereverKilled(t *testing.T, order []func(*env), begin func(*testing.T, *writes, ...runtime.Object) *env) {
	t.Helper()
	killedAnywhere(t, func(t *testing.T, w *writes) {
		e := begin(t, w)
		for _, do := range order {
			if w.at != 0 { // this loop may be killed
				l := e.loop()
				_ = l.Sync(t.Context())
				_ = l.SyncNodes(t.Context())
			}
			killed := w.dead
			at := w.at
			w.dead, w.at = false, 0
			do(e)
			w.dead, w.at = killed, at
		}
		killed := revive(w)
		for range 3 {
			e.sync()
		}
		w.dead = killed
		require.False(t, e.isTainted(e.node()))
		require.Len(t, e.node().Spec.Taints, 1, "the others stay")
		require.Empty(t, e.node().Annotations[plan.AnnotationOutOfService])
		require.Zero(t, e.log.state["n1"].GetSince())
	})
}

func sever(e *env) { e.log.severed = true }

func comeBack(e *env) {
	e.log.back("n1")
	e.leaseSilent = false
	e.kubelet(corev1.ConditionTrue)
}

// podsGo: the pods end that were deleted, and their volumes are detached.
func podsGo(e *env) {
	e.quietly(func() {
		_, err := e.kube.CoreV1().Pods("default").Get(e.t.Context(), "user", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			err = e.kube.StorageV1().VolumeAttachments().Delete(e.t.Context(), plan.Driver+"-n1", metav1.DeleteOptions{})
			require.True(e.t, err == nil || apierrors.IsNotFound(err), err)
		}
	})
	e.detach()
}

// S170: an admin's taint is neither set again nor taken off.
func TestS170_AnAdminsTaintStays(t *testing.T) {
	w := &writes{}
	e := silent(t, w)
	e.onWrite = nil
	e.quietly(func() {
		n := e.node()
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: plan.TaintOutOfService, Value: plan.TaintValue, Effect: corev1.TaintEffectNoExecute})
		_, err := e.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
		require.NoError(t, err)
	})
	for range 2 {
		require.NoError(t, e.loop().SyncNodes(t.Context()))
	}
	e.detach()
	comeBack(e)
	require.NoError(t, e.loop().SyncNodes(t.Context()))
	require.True(t, e.isTainted(e.node()))
	require.Zero(t, w.n)
}

// S170: what is refused is said, and changes nothing.
func TestS170_ARefusalIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []runtime.Object
		change  func(*env)
		says    string
	}{
		"another driver's volume": {objects: []runtime.Object{attachedTo("n1", "ebs.csi.aws.com")}, says: "ebs.csi.aws.com"},
		"the log refuses":         {change: func(e *env) { e.log.state["n1"].Refused = []string{"volume hf-9: its only copy is on node n1"} }, says: "its only copy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writes{}
			e := silent(t, w, tc.objects...)
			if tc.change != nil {
				tc.change(e)
			}
			l := e.loop()
			for range 2 {
				require.NoError(t, l.SyncNodes(t.Context()))
			}
			require.Zero(t, w.n)
			require.Contains(t, <-e.said.Events, tc.says)
			require.Empty(t, e.said.Events, "once")
		})
	}
}

// foreignUser is a pod on n1 with a volume of a driver that attaches nothing.
func foreignUser(change func(*corev1.Pod, *corev1.PersistentVolume)) []runtime.Object {
	pod := userOf("shared", "n1")
	pod.Name, pod.UID = "other", "pod-2"
	pv, claim := boundVolume()
	pv.Name, pv.UID, claim.Name, claim.UID, claim.Spec.VolumeName = "pvc-2", "pv-2", "shared", "claim-2", "pvc-2"
	pv.Spec.CSI.Driver, pv.Spec.AccessModes = "nfs.csi.k8s.io", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	change(pod, pv)
	return []runtime.Object{pod, pv, claim}
}

// S170: the taint has every pod of the node run elsewhere too, also one whose volume has no attachment, and of which nothing is proven.
func TestS170_APodThatMayStillWriteElsewhereIsNotRunTwice(t *testing.T) {
	readOnly := true
	inline := func(source corev1.VolumeSource) func(*corev1.Pod, *corev1.PersistentVolume) {
		return func(pod *corev1.Pod, _ *corev1.PersistentVolume) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
		}
	}
	for name, tc := range map[string]struct {
		change  func(*corev1.Pod, *corev1.PersistentVolume)
		refused bool
	}{
		"another driver's volume": {func(*corev1.Pod, *corev1.PersistentVolume) {}, true},
		"an NFS export": {func(pod *corev1.Pod, _ *corev1.PersistentVolume) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}}}
		}, true},
		"an export that is only read": {inline(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/", ReadOnly: true}}), false},
		"an inline volume":            {inline(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "smb.csi.k8s.io"}}), true},
		"one that is only read":       {inline(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "secrets-store.csi.k8s.io", ReadOnly: &readOnly}}), false},
		"an inline volume in-tree":    {inline(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}), true},
		"a folder of the pod":         {inline(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), false},
		"what is projected":           {inline(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}), false},
		"only read": {func(pod *corev1.Pod, _ *corev1.PersistentVolume) {
			pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		}, false},
		"read, and written under another name": {func(pod *corev1.Pod, _ *corev1.PersistentVolume) {
			again := pod.Spec.Volumes[0].DeepCopy()
			pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly, again.Name = true, "w"
			pod.Spec.Volumes = append(pod.Spec.Volumes, *again)
		}, true},
		"for readers, and not only read": {func(_ *corev1.Pod, pv *corev1.PersistentVolume) {
			pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
		}, true},
		"made to be only read": {func(_ *corev1.Pod, pv *corev1.PersistentVolume) { pv.Spec.CSI.ReadOnly = true }, false},
		"of that host only": {func(_ *corev1.Pod, pv *corev1.PersistentVolume) {
			pv.Spec.CSI, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: "/disk"}
		}, false},
		"a pod that ended": {func(pod *corev1.Pod, _ *corev1.PersistentVolume) { pod.Status.Phase = corev1.PodSucceeded }, false},
		"a pod of that node": {func(pod *corev1.Pod, _ *corev1.PersistentVolume) {
			yes := true
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &yes}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writes{}
			e := silent(t, w, foreignUser(tc.change)...)
			sever(e)
			for range 2 {
				e.sync()
			}
			require.Equal(t, !tc.refused, e.isTainted(e.node()))
			require.Equal(t, tc.refused, w.n == 0)
		})
	}
}

// A pod that is made again under its name on a node that is back, before its volume was detached, keeps it attached: the node
// returns all the same, and the pod gets its volume.
func TestS170_ANodeReturnsUnderAPodThatWaitsForIt(t *testing.T) {
	waiting := corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
		{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}}
	initialising, pulling := *waiting.DeepCopy(), *waiting.DeepCopy()
	initialising.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	pulling.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
	for _, tc := range []struct {
		status  corev1.PodStatus
		mounted bool
	}{{waiting, false}, {initialising, true}, {pulling, true}} {
		e := silent(t, &writes{})
		e.sync()
		comeBack(e)
		e.quietly(func() {
			pod, err := e.kube.CoreV1().Pods("default").Get(t.Context(), "user", metav1.GetOptions{})
			require.NoError(t, err)
			pod.Status = tc.status
			_, err = e.kube.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
			require.NoError(t, err)
		})
		for range 2 {
			e.sync()
		}
		require.Equal(t, tc.mounted, e.log.state["n1"].GetSince() != 0, "it waits for the end of a pod that has dead mounts")
		_, err := e.kube.CoreV1().Pods("default").Get(t.Context(), "user", metav1.GetOptions{})
		require.Equal(t, tc.mounted, apierrors.IsNotFound(err), "which is ended")
	}
}

// The pods and the node are told the entry.
func TestS170_TheEventsHaveTheEntry(t *testing.T) {
	e := silent(t, &writes{})
	sever(e)
	require.NoError(t, e.loop().SyncNodes(t.Context()))
	require.True(t, e.isTainted(e.node()))
	require.Contains(t, <-e.said.Events, "log index 71, out of service since 71: hf-1 generation 71 seen by n2")
	require.Contains(t, <-e.said.Events, "volume hf-1 is free for another node: log index 71, generation 71: n2 disconnected it")
}

// Neither a failover nor the guard of a node waits until the loop has done with volumes.
func TestNoDutyWaitsForAnother(t *testing.T) {
	e := silent(t, &writes{}, aNode("n2"))
	sever(e)
	e.log.nodes = append(e.log.nodes, &adminpb.Node{Id: "n2", State: "reachable", Adopted: true, StopReasons: []string{lost}})
	ctx, cancel := context.WithCancel(t.Context())
	tainted, closed, waited := make(chan struct{}), make(chan struct{}), false
	var once [2]sync.Once
	e.onWrite = func(o runtime.Object) {
		switch o := o.(type) {
		case *corev1.Node:
			if e.isTainted(o) {
				once[0].Do(func() { close(tainted) })
			}
		case *policyv1.PodDisruptionBudget:
			once[1].Do(func() { close(closed) })
		}
	}
	e.log.onVolumes = func(context.Context) {
		defer cancel()
		for _, done := range []chan struct{}{tainted, closed} {
			select {
			case <-done:
			case <-time.After(time.Minute):
				return
			}
		}
		waited = true
	}
	e.loop().Run(ctx)
	require.True(t, waited)
}

// The loop looks until it is told to end.
func TestALoopEndsWithItsContext(t *testing.T) {
	e := silent(t, &writes{})
	sever(e)
	ctx, cancel := context.WithCancel(t.Context())
	e.onWrite = func(o runtime.Object) {
		if n, ok := o.(*corev1.Node); ok && e.isTainted(n) {
			cancel()
		}
	}
	e.loop().Run(ctx)
	require.True(t, e.isTainted(e.node()))
}
