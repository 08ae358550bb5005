package loop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

func TestANoticeIsSaidOnce(t *testing.T) {
	recorder := events.NewFakeRecorder(1000)
	n := NewNotifier(recorder, NewMetrics(prometheus.NewRegistry()))
	now := time.Unix(1000, 0)
	n.now = func() time.Time { return now }
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	for range 3 {
		n.Claim(claim, plan.Notice{Reason: "R", Note: "one 100 %s"})
	}
	n.Claim(claim, plan.Notice{Reason: "R", Note: "two"})
	n.Claim(claim, plan.Notice{Reason: "S", Note: "two", Good: true})
	now = now.Add(repeatAfter)
	n.Claim(claim, plan.Notice{Reason: "R", Note: "two"})
	for _, want := range []string{"Warning R one 100 %s", "Warning R two", "Normal S two", "Warning R two"} {
		require.Contains(t, <-recorder.Events, want)
	}
	require.Empty(t, recorder.Events)
}

// S170: a second failover of a node, soon after the first, has an Event with its own entry.
func TestS170_ANoticeOfAnotherEntryIsAnEventOfItsOwn(t *testing.T) {
	kube := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: kube.EventsV1()})
	require.NoError(t, broadcaster.StartRecordingToSinkWithContext(t.Context()))
	defer broadcaster.Shutdown()
	n := NewNotifier(broadcaster.NewRecorder(scheme.Scheme, "test"), NewMetrics(prometheus.NewRegistry()))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	notes := func() (all []string) {
		list, err := kube.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, e := range list.Items {
			all = append(all, e.Note)
		}
		return all
	}
	for i, note := range []string{"log index 4", "log index 9"} {
		n.Node(node, plan.Notice{Reason: plan.ReasonOutOfService, Note: note, Entry: uint64(i) + 1})
		require.Eventually(t, func() bool { return slices.Contains(notes(), note) }, 10*time.Second, 10*time.Millisecond, "%v", notes())
	}
}

func TestNoticesHaveABoundedRate(t *testing.T) {
	recorder := events.NewFakeRecorder(10 * noticeBurst)
	n := NewNotifier(recorder, NewMetrics(prometheus.NewRegistry()))
	for i := range 5 * noticeBurst {
		n.Node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}, plan.Notice{Reason: "R", Note: "x"})
	}
	require.GreaterOrEqual(t, len(recorder.Events), noticeBurst)
	require.Less(t, len(recorder.Events), 4*noticeBurst)
	n.said[noticeKey{"old", "R"}] = said{}
	for i := range maxRemembered {
		n.said[noticeKey{types.UID(fmt.Sprint("x", i)), "R"}] = said{at: time.Now()}
	}
	n.forget(time.Now())
	require.Empty(t, n.said)
}

// Claims, and the pods that use them, are told what is wrong with their volumes; a claim that waits, that there is no room.
func TestWhoIsToldOfWhat(t *testing.T) {
	waiting := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "more", UID: "claim-2"}}
	class := "fast"
	waiting.Spec.StorageClassName, waiting.Status.Phase = &class, corev1.ClaimPending
	waiting.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	foreign := waiting.DeepCopy()
	other := "gp3"
	foreign.Name, foreign.UID, foreign.Spec.StorageClassName = "foreign", "claim-3", &other
	e := moved(t, &writes{}, userOf("data", "n2"), waiting, foreign, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: plan.Driver, Parameters: map[string]string{"replicas": "2"}})
	e.log.nodes[2].State = "unreachable"
	l := e.loop()
	for range 2 {
		require.NoError(t, l.Sync(t.Context()))
	}
	var all []string
	for len(e.said.Events) > 0 {
		all = append(all, <-e.said.Events)
	}
	require.Len(t, all, 5, all)
	require.Contains(t, all[0], plan.ReasonAffinity)
	require.Contains(t, all[1], "No controller has heard of this node's host")
	require.Contains(t, all[2], "Node n3, which has a replica of this volume")
	require.Contains(t, all[3], "Volume of claim data: Node n3")
	require.Contains(t, all[4], "0 of the 2 nodes that this volume needs have a pool with 10 GiB")
	require.Equal(t, []*adminpb.Member(nil), e.log.members)
}
