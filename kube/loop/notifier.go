package loop

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

const (
	// repeatAfter is how long a notice that still holds is not said again: its series would end without it.
	repeatAfter = 5 * time.Minute
	// noticesPerSecond and noticeBurst bound what all objects are told.
	noticesPerSecond, noticeBurst = 1, 50
	// maxRemembered bounds what is remembered of notices.
	maxRemembered = 20000
)

// Notifier makes Events of notices: the same sentence about the same object once in repeatAfter, and all of them at a bounded
// rate. What is left out is said later, if it still holds.
type Notifier struct {
	recorder events.EventRecorder
	metrics  *Metrics
	limit    flowcontrol.PassiveRateLimiter
	now      func() time.Time
	mu       sync.Mutex
	said     map[noticeKey]said
}

type noticeKey struct {
	uid    types.UID
	reason string
}

type said struct {
	note string
	at   time.Time
}

// NewNotifier makes a notifier that records with the recorder.
func NewNotifier(recorder events.EventRecorder, m *Metrics) *Notifier {
	return &Notifier{
		recorder: recorder, metrics: m, now: time.Now, said: map[noticeKey]said{},
		limit: flowcontrol.NewTokenBucketPassiveRateLimiter(noticesPerSecond, noticeBurst),
	}
}

// Node says it to a node. kubectl looks for the Events of a node under its name in place of its uid.
func (n *Notifier) Node(node *corev1.Node, notice plan.Notice) {
	n.say(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: types.UID(node.Name)}, notice)
}

// Pod says it to a pod.
func (n *Notifier) Pod(pod *corev1.Pod, notice plan.Notice) {
	if ref, err := reference.GetReference(scheme.Scheme, pod); err == nil {
		n.say(ref, notice)
	}
}

// Claim says it to a claim.
func (n *Notifier) Claim(claim *corev1.PersistentVolumeClaim, notice plan.Notice) {
	if ref, err := reference.GetReference(scheme.Scheme, claim); err == nil {
		n.say(ref, notice)
	}
}

func (n *Notifier) say(about *corev1.ObjectReference, notice plan.Notice) {
	notice = notice.Bounded()
	if !n.isDue(noticeKey{about.UID, notice.Reason}, notice.Note) {
		return
	}
	kind := corev1.EventTypeWarning
	if notice.Good {
		kind = corev1.EventTypeNormal
	}
	n.recorder.Eventf(about, nil, kind, notice.Reason, actionOf(notice), "%s", notice.Note)
}

// actionOf is part of what makes an Event one of its own.
func actionOf(notice plan.Notice) string {
	if notice.Entry == 0 {
		return "Holdfast"
	}
	return fmt.Sprintf("HoldfastEntry%d", notice.Entry)
}

// isDue tells whether it is said now, and remembers that.
func (n *Notifier) isDue(key noticeKey, note string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	if last, known := n.said[key]; known && last.note == note && now.Sub(last.at) < repeatAfter {
		return false
	}
	if !n.limit.TryAccept() {
		n.metrics.suppressed()
		return false
	}
	if len(n.said) >= maxRemembered {
		n.forget(now)
	}
	n.said[key] = said{note, now}
	return true
}

// forget drops what would be said again anyway, and all where that is not enough.
func (n *Notifier) forget(now time.Time) {
	for key, last := range n.said {
		if now.Sub(last.at) >= repeatAfter {
			delete(n.said, key)
		}
	}
	if len(n.said) >= maxRemembered {
		clear(n.said)
	}
}
