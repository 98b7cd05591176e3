package dsqlsim

// frameQueue holds the client's frames that the session has taken from its inbox.
type frameQueue struct {
	frames []frame // those before at are done
	at     int
	// replayed is how many of the next ones were there before.
	replayed int
}

// first is the next frame, nil if there is none.
func (q *frameQueue) first() *frame {
	if q.at == len(q.frames) {
		return nil
	}
	return &q.frames[q.at]
}

// pop removes the first frame and returns it. It is a copy: a COPY inside its
// handling recycles the queue.
func (q *frameQueue) pop() frame {
	f := q.frames[q.at]
	q.frames[q.at] = frame{}
	q.at++
	return f
}

// pushFront makes frames the next ones.
func (q *frameQueue) pushFront(frames []frame) {
	q.frames, q.at = append(frames, q.frames[q.at:]...), 0
}

// replay makes frames that were there before the next ones.
func (q *frameQueue) replay(frames []frame) {
	q.replayed = len(frames)
	q.pushFront(frames)
}

// pushBehindReplayed puts a frame behind those that were there before.
func (q *frameQueue) pushBehindReplayed(f frame) {
	at := q.at + q.replayed
	q.frames = append(q.frames[:at:at], append([]frame{f}, q.frames[at:]...)...)
}
