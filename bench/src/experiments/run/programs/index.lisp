;;; Prints the most frequent words of a file, and the sum of the numbers of their lines.
(defvar *places* (make-hash-table :test 'equal))
(defun note (word number) (push number (gethash word *places*)))
(with-open-file (file (second sb-ext:*posix-argv*) :external-format :latin-1)
  (loop for line = (read-line file nil) for number from 1 while line do
    (loop with start = 0
          for end = (position #\Space line :start start)
          do (when (< start (or end (length line))) (note (subseq line start end) number))
          while end do (setf start (1+ end)))))
(let ((words (loop for word being the hash-keys of *places* using (hash-value found)
                   collect (list (length found) word (reduce #'+ found)))))
  (format t "~d~%" (length words))
  (setf words (sort words (lambda (a b) (or (> (first a) (first b))
                                            (and (= (first a) (first b)) (string< (second a) (second b)))))))
  (loop for word in words repeat 1000 do (format t "~{~d ~s ~d~}~%" word)))
