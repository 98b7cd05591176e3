package dsqlsim

// frameQueue holds the client's frames that the session has taken from its inbox and not handled yet.
type frameQueue struct {
	frames []frame // those before at are done
	at     int
	// replayed is the number of frames that the last pushReplayed has inserted.
	replayed int
}

// first returns the next frame, nil if there is none.
func (q *frameQueue) first() *frame {
	if q.at == len(q.frames) {
		return nil
	}
	return &q.frames[q.at]
}

// pop removes the first frame and returns a copy, because a COPY may reuse the queue while the session handles the
// frame.
func (q *frameQueue) pop() frame {
	f := q.frames[q.at]
	q.frames[q.at] = frame{}
	q.at++
	return f
}

// pushFront inserts frames at the front of the queue.
func (q *frameQueue) pushFront(frames []frame) {
	q.frames, q.at = append(frames, q.frames[q.at:]...), 0
}

// pushReplayed inserts frames at the front of the queue. The session has sent these frames to PostgreSQL before, and
// will send them again.
func (q *frameQueue) pushReplayed(frames []frame) {
	q.replayed = len(frames)
	q.pushFront(frames)
}

// pushBehindReplayed inserts a frame after the frames that the last pushReplayed has inserted.
func (q *frameQueue) pushBehindReplayed(f frame) {
	at := q.at + q.replayed
	q.frames = append(q.frames[:at:at], append([]frame{f}, q.frames[at:]...)...)
}
