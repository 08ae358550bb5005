package scratch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/holdfast-storage/holdfast/admin/certify"
	"github.com/holdfast-storage/holdfast/csi/identity"
)

const (
	runA certify.Run = "aaaaaaaaaaaaaaaa"
	runB certify.Run = "bbbbbbbbbbbbbbbb"
)

// scratchPods are those of one cluster on a server with these objects.
func scratchPods(t *testing.T, objects ...runtime.Object) (*Pods, *fake.Clientset) {
	t.Helper()
	api := fake.NewClientset(objects...)
	return &Pods{
		API: api, Cluster: "cluster-1", Namespace: "holdfast", Plan: &certify.WritePlan{Class: "fast", SizeBytes: 64 << 20, Hosts: []string{"n1"}},
		Program:  Program{Image: "registry/holdfast:1", Policy: corev1.PullIfNotPresent, Pull: []corev1.LocalObjectReference{{Name: "pull"}}},
		Progress: t.Logf, Pause: time.Millisecond, Patience: 50 * time.Millisecond,
	}, api
}

// becomes has every pod that is made be in this state at once.
func becomes(api *fake.Clientset, status corev1.PodStatus) {
	api.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		pod := a.(k8stesting.CreateAction).GetObject().(*corev1.Pod)
		pod.Status, pod.Spec.NodeName = status, "n2"
		return false, pod, nil
	})
}

func TestAWriterRunsOnItsHostAsRestrictedPodsDo(t *testing.T) {
	p, api := scratchPods(t)
	becomes(api, corev1.PodStatus{Phase: corev1.PodRunning})
	claim, _, err := p.Write(t.Context(), runA, 0, "n1")
	require.NoError(t, err)
	require.Equal(t, "holdfast/holdfast-certify-aaaaaaaaaaaaaaaa-write-0", claim)
	pod, err := api.CoreV1().Pods("holdfast").Get(t.Context(), writerName(runA, 0), metav1.GetOptions{})
	require.NoError(t, err)
	term := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0]
	require.Equal(t, corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}, term)
	require.Equal(t, "registry/holdfast:1", pod.Spec.Containers[0].Image)
	require.Equal(t, []string{"certify-blocks", "write", "--file=/data/blocks", "--run=aaaaaaaaaaaaaaaa", "--places=8192"}, pod.Spec.Containers[0].Args)
	require.True(t, *pod.Spec.SecurityContext.RunAsNonRoot)
	require.Equal(t, p.Program.Pull, pod.Spec.ImagePullSecrets)
	other := p.reader(runA, 0, "n1", true, 9)
	require.Equal(t, corev1.NodeSelectorOpNotIn, other.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Operator)
}

func TestAPodThatDoesNotRunSaysWhy(t *testing.T) {
	waits := func(reason, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		says   string
	}{
		"no host for it": {corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}},
			"is not Running after 50ms: Unschedulable: 0/3 nodes are available: see `kubectl holdfast why"},
		"no image": {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waits("ImagePullBackOff", "back-off pulling image")}, "ImagePullBackOff: back-off pulling image"},
		"it ended": {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: "read-only file system\n"}}}}},
			"ended: Error, exit code 1: read-only file system"},
		"it was evicted": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "disk pressure"}, "ended: Evicted: disk pressure"},
		"nothing said":   {corev1.PodStatus{Phase: corev1.PodPending}, ": Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			p, api := scratchPods(t)
			becomes(api, tc.status)
			_, _, err := p.Write(t.Context(), runA, 0, "n1")
			require.ErrorContains(t, err, tc.says)
			_, err = p.Acknowledged(t.Context(), runA, 0)
			require.ErrorContains(t, err, "does not write any more")
		})
	}
}

// made is a pod and a claim of a run that were made so long ago.
func made(p *Pods, run certify.Run, n int, ago time.Duration) []runtime.Object {
	pod, claim := p.writer(run, n, "n1"), p.claim(run, n)
	for _, o := range []metav1.Object{pod, claim} {
		o.SetUID(types.UID(o.GetName()))
		o.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-ago)))
	}
	return []runtime.Object{pod, claim}
}

func left(t *testing.T, api *fake.Clientset) (names []string) {
	t.Helper()
	pods, err := api.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	claims, err := api.CoreV1().PersistentVolumeClaims("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, o := range pods.Items {
		names = append(names, o.Name)
	}
	for _, o := range claims.Items {
		names = append(names, o.Name)
	}
	return names
}

func TestARunRemovesItsOwnAlone(t *testing.T) {
	p, _ := scratchPods(t)
	p, api := scratchPods(t, append(made(p, runA, 0, 0), made(p, runB, 0, 0)...)...)
	require.NoError(t, p.Remove(t.Context(), runA))
	require.Equal(t, []string{writerName(runB, 0), claimName(runB, 0)}, left(t, api))
	require.NoError(t, p.Remove(t.Context(), runA), "a second time there is nothing")
}

func TestWhatIsLeftOfKilledRuns(t *testing.T) {
	p, _ := scratchPods(t)
	user := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "user"}, Spec: corev1.PodSpec{Volumes: p.writer(runA, 0, "n1").Spec.Volumes}}
	for name, tc := range map[string]struct {
		change func(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim)
		more   []runtime.Object
		says   string // of what is not touched
		left   int
	}{
		"is removed":       {nil, nil, "", 2},
		"is young":         {func(p *corev1.Pod, _ *corev1.PersistentVolumeClaim) { p.CreationTimestamp = metav1.Now() }, nil, "may be under way", 1},
		"has another name": {func(p *corev1.Pod, _ *corev1.PersistentVolumeClaim) { p.Name = "mine" }, nil, "pod holdfast/mine has the labels of a scratch one, and no name of its run", 0}, // so that the claim is somebody's, too
		"has another run":  {func(_ *corev1.Pod, c *corev1.PersistentVolumeClaim) { c.Labels[LabelRun] = string(runB) }, nil, "no name of its run", 1},
		"has no run":       {func(_ *corev1.Pod, c *corev1.PersistentVolumeClaim) { delete(c.Labels, LabelRun) }, nil, "no name of its run", 1},
		"is another cluster's": {func(p *corev1.Pod, c *corev1.PersistentVolumeClaim) {
			p.Labels[LabelCluster], c.Labels[LabelCluster] = "2", "2"
		}, nil, "", 0},
		"is somebody's by now":    {nil, []runtime.Object{user}, "pod user uses it", 1},
		"is in another namespace": {func(p *corev1.Pod, c *corev1.PersistentVolumeClaim) { p.Namespace, c.Namespace = "b", "b" }, nil, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			objects := made(p, runA, 0, time.Hour)
			if tc.change != nil {
				tc.change(objects[0].(*corev1.Pod), objects[1].(*corev1.PersistentVolumeClaim))
			}
			p, api := scratchPods(t, append(objects, tc.more...)...)
			before := len(left(t, api))
			found, others, err := p.Leftovers(t.Context(), time.Now().Add(-5*time.Minute))
			require.NoError(t, err)
			require.Len(t, found, tc.left, "%v", others)
			require.Equal(t, tc.says != "", len(others) > 0)
			if tc.says != "" {
				require.Contains(t, others[0], tc.says)
			}
			require.NoError(t, p.RemoveLeft(t.Context()))
			require.Len(t, left(t, api), before-tc.left)
		})
	}
}

func TestWhatIsMissingIsSaidInOneLine(t *testing.T) {
	p, api := scratchPods(t)
	allowed := false
	api.PrependReactor("create", "selfsubjectaccessreviews", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, &authv1.SelfSubjectAccessReview{Status: authv1.SubjectAccessReviewStatus{Allowed: allowed}}, nil
	})
	require.ErrorContains(t, p.Check(t.Context()), "does not let you get pods, list pods, delete pods, get pods/log")
	allowed = true
	tried := 0
	api.PrependReactor("create", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if a.GetResource().Group != "" {
			return false, nil, nil
		}
		tried++
		require.Equal(t, []string{metav1.DryRunAll}, a.(k8stesting.CreateActionImpl).CreateOptions.DryRun)
		return true, a.(k8stesting.CreateAction).GetObject(), nil
	})
	require.NoError(t, p.Check(t.Context()))
	require.Equal(t, 2, tried, "a claim and a pod")
	api.PrependReactor("create", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", nil)
	})
	require.ErrorContains(t, p.Check(t.Context()), "create a pod: pods \"x\" is forbidden")
}

func TestTheHostsOfPods(t *testing.T) {
	p, _ := scratchPods(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: corev1.NodeSpec{Unschedulable: true}})
	for host, want := range map[string]string{"n1": "", "n2": "its node is cordoned", "n3": "Kubernetes has no node of its name"} {
		why, err := p.NotOn(t.Context(), host)
		require.NoError(t, err)
		require.Equal(t, want, why)
	}
}

func class(name string, change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	wait, del := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}, Provisioner: identity.Name, VolumeBindingMode: &wait, ReclaimPolicy: &del}
	for _, one := range change {
		one(c)
	}
	return c
}

func TestTheClassOfClaims(t *testing.T) {
	at, keep := storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimRetain
	immediate := class("at-once", func(c *storagev1.StorageClass) { c.VolumeBindingMode = &at })
	retained := class("kept", func(c *storagev1.StorageClass) { c.ReclaimPolicy = &keep })
	foreign := class("foreign", func(c *storagev1.StorageClass) { c.Provisioner = "other" })
	standard := class("b", func(c *storagev1.StorageClass) { c.Annotations[isDefault] = "true" })
	choose := func(objects ...runtime.Object) (*storagev1.StorageClass, error) {
		return ChooseClass(context.Background(), fake.NewClientset(objects...))
	}
	got, err := choose(class("a"), immediate, retained, foreign)
	require.NoError(t, err)
	require.Equal(t, "a", got.Name)
	got, err = choose(class("a"), standard)
	require.NoError(t, err)
	require.Equal(t, "b", got.Name)
	_, err = choose(class("a"), class("c"))
	require.ErrorContains(t, err, "choose one of the storage classes a, c")
	_, err = choose(immediate, foreign)
	require.ErrorContains(t, err, "none of 2 storage classes")
	for name, says := range map[string]string{"at-once": "volumeBindingMode", "kept": "reclaimPolicy", "foreign": "is of other", "none": `there is no storage class "none"`} {
		_, err := ClassNamed(t.Context(), fake.NewClientset(immediate, retained, foreign), name)
		require.ErrorContains(t, err, says)
	}
}
