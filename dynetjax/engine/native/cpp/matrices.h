// Small matrices: factors, and equations solved with these.
#pragma once

// a[rows, columns] = p l u: l below the diagonal of d and u from it on; then, as ints, with
// which row each of the first rows changed places, and where each row of d was.
void factorise(float* d, const float* a, long rows, long columns);
inline long factor_words(long rows, long columns) {
    return rows * columns + (rows < columns ? rows : columns) + rows;
}

// d[n, columns] for which the triangle a[n, n] times d is b.
void solve_triangle(float* d, const float* a, const float* b, long n, long columns, bool lower, bool unit);

// The lower triangle d for which d times itself turned is a[n, n]; NaN if there is none.
void cholesky(float* d, const float* a, long n);
